"""Words the story grammar draws from.

Every list is plain English chosen by hand. A person or animal is a tuple (kind, gender); a place is (phrase, preposition);
an object is a noun that can be held, lost, lent and given.
"""

GIRLS = """Lily Anna Mia Sara Emma Lucy Rosie Nina Ella Zoe Amy Molly Ruby Daisy Kate Jane Bella Sue Mary Clara""".split()
BOYS = """Tom Tim Ben Max Sam Jack Leo Finn Billy Bob Joe Henry Oscar Dan Peter Adam Noah Fred Luke Charlie""".split()
SHE_PETS = "Dot Hazel Coco Poppy Luna Penny Honey Pearl".split()
HE_PETS = "Pip Bruno Biscuit Rusty Toby Teddy Ziggy Milo".split()

# Syllables of made-up names: a few stories use one, so that the model learns to copy a name it has never seen.
HEAD = "Ba Be Bo Da Do Fa Fi Ga Go Ha Jo Ka Ki La Lo Ma Mi Na No Pa Pi Ra Ro Sa Si Ta Ti Va Vi Za Zo Qui Bri Tru".split()
MIDDLE = ["", "", "", "la", "ri", "mo", "ne", "bi", "do", "ra"]
TAIL = {"f": "na la ra lia ssa bi nny tta".split(), "m": "ko rn to ck mo x rdo bbin".split()}

CHILD = {"f": ["girl"] * 8 + ["princess"], "m": ["boy"] * 8 + ["prince"]}
ANIMALS = """cat dog rabbit bear fox mouse duck frog squirrel turtle pig lamb elephant lion monkey owl dragon robot
pony kitten puppy bunny penguin bee""".split()
HELPERS = "squirrel rabbit owl turtle frog duck fox mouse bird deer bear butterfly".split()
FAMILY = [("mom", "f"), ("dad", "m"), ("grandma", "f"), ("grandpa", "m"), ("big sister", "f"), ("big brother", "m")]
PARENTS = [("mom", "f"), ("dad", "m"), ("grandma", "f"), ("grandpa", "m")]

SIZES = "little small young tiny".split()
TRAITS = "kind brave curious clever shy funny gentle cheerful friendly".split()
COLORS = "red blue green yellow purple pink orange white brown".split()
TOYS = "ball kite doll drum book hat scarf blanket balloon train puzzle boat robot teddy whistle car".split()
KEEPSAKES = "ball doll book hat scarf drum boat ring key bell whistle cup shell teddy".split()
FOODS = "cake soup pie bread cookies pancakes".split()
FRUITS = "apples berries cherries carrots pears strawberries plums".split()
FLOWERS = "flower rose sunflower tree tulip pumpkin bean".split()

PLACES = [("the park", "in"), ("the forest", "in"), ("the garden", "in"), ("the meadow", "in"), ("the beach", "at"),
          ("the river", "by"), ("the lake", "by"), ("the pond", "by"), ("the farm", "at"), ("the hill", "on"),
          ("the playground", "at"), ("the yard", "in"), ("the woods", "in")]
HOMES = ["near the forest", "by the sea", "on a hill", "in a quiet village", "near a big river", "at the edge of the woods",
         "on a farm", "in a busy town", "next to a pond", "under a tall tree"]
HIDING = ["under the bed", "behind the door", "in the big box", "under the chair", "behind the tree", "in the tall grass",
          "near the gate", "under the table", "by the fence", "behind the rock", "in the basket", "under a bush"]
PLAY = ["play in the sun", "sing songs", "run and jump", "look at the clouds", "climb trees", "paint pictures", "read books",
        "dance", "ride a bike", "play with friends", "pick flowers", "help at home", "splash in the water", "tell jokes"]
WEATHER = ["sunny", "warm", "bright", "windy", "cool", "quiet"]
