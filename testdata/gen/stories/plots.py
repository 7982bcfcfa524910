"""The plots: each writes the middle and the end of a story after its opening.

A plot keeps one promise: every person, thing and place in a sentence was introduced before it, and every pronoun has one
possible owner or is followed by the name. `{day}` begins the first sentence.
"""

import words as w
from grammar import article
from plots_more import MORE

HAPPY = ("They all lived happily ever after.", "The end.", "And they were happy.", "It was the best day ever.",
         "That night, {n} went to sleep with a smile.", "{n} went home with a happy heart.", "{n} never forgot that day.")


def lost_thing(s):
    """The hero loses a dear thing, looks for it in two places, and someone helps to find it."""
    s.thing(w.KEEPSAKES)
    one, two = s.rng.sample(w.HIDING, 2)
    s.v.update(one=one, two=two)
    s.say("{n} had {athing} that {he} loved very much.", "{His} favorite thing was {athing}.",
          "{His} {p} gave {him} {athing}, and {he} took it everywhere.", "{n} had a special {thing}. It was {color}[| and very pretty].")
    s.say("{day}, {n} [could not find|looked for] the {thing}[| anywhere]. It was [gone|not in its place].",
          "{day}, the {thing} was gone. {n} [did not know where it was|looked and looked].",
          "{day}, {n} lost the {thing}. {He} was very [sad|upset].")
    s.say("{He} looked {one}, but it was not there.", "First, {he} looked {one}. The {thing} was not there.",
          "{n} looked {one}. No {thing}!")
    s.maybe(0.6, "{n} began to cry.", "\"Oh no! Where is my {thing}?\" {n} [said|cried].", "{He} felt [very |so ]sad.")
    if s.rng.random() < 0.5:
        s.say("{His} {p} [saw|heard] {him} and asked, \"What is wrong, {n}?\"", "\"Why are you sad?\" asked {his} {p}.")
        s.say("\"I lost my {thing},\" said {n}.", "\"I can not find my {thing},\" {n} said.")
        s.say("\"Do not worry. [We will look together|I will help you|Let us look for it],\" said {his} {p}.")
        s.say("They looked {two}, and there it was!", "Together they looked {two}. There was the {thing}!",
              "{His} {p} looked {two} and found the {thing}.")
        s.say("{n} [hugged|kissed] {his} {p} and said, \"Thank you[| so much]!\"", "\"Thank you!\" said {n} and gave {his} {p} a big hug.")
    else:
        s.say("Then {his} friend {f} came [by|to visit|to play].", "{n} asked {his} friend {f} for help.")
        s.say("\"I will help you find it,\" said {f}.", "\"Let us look together,\" {f} said.", "{f} wanted to help.")
        s.say("{f} looked {two} and [saw something {color}|found the {thing}]. \"[Here it is|Look, your {thing}]!\" {fhe} said.",
              "They looked {two}, and there was the {thing}!")
        s.say("{n} was so happy. \"Thank you, {f}!\" {he} said.", "\"You are a good friend,\" said {n}.")
    s.say("From that day on, {n} [always put the {thing} in a safe place|took good care of the {thing}].",
          "After that, {n} always kept the {thing} [in a safe place|close].", "{n} [held|hugged] the {thing} and smiled.",
          "{n} learned that it is good to ask for help.")
    s.maybe(0.3, *HAPPY)


def stuck_high(s):
    """A thing is stuck in a tree; the hero tries alone, then with help."""
    s.thing(["kite", "ball", "balloon", "hat", "scarf"])
    s.say("{day}, {n} went to {place} with {athing}.", "{day}, {n} took {his} new {color} {thing} to {place}.",
          "{day}, {n} was playing with {athing} {at}.")
    s.say("The wind [was strong|blew hard], and the {thing} [flew|went] up into a [big|tall] tree.",
          "A [big|strong] wind took the {thing} and put it in a tall tree.",
          "Suddenly, the wind blew the {thing} away. It got stuck in a [big|tall] tree.")
    s.say("\"Oh no!\" said {n}. \"My {thing} is stuck!\"", "{n} was sad. {He} wanted {his} {thing} back.", "{n} did not know what to do.")
    s.say("{He} [jumped and jumped|jumped as high as {he} could], but the tree was too [tall|high].",
          "{He} tried to reach it, but {he} was too [small|short].", "{He} threw a stick at it, but the {thing} did not move.")
    if s.rng.random() < 0.5:
        s.pick("h", ["bird", "squirrel", "monkey", "cat", "butterfly"])
        s.say("A [kind|friendly|little] {h} saw {n} and said, \"[Can I help you|Why are you sad]?\"",
              "Just then, a {h} came by. \"I can help you,\" said the {h}.")
        s.say("\"My {thing} is in the tree,\" said {n}.", "\"Please help me get my {thing},\" said {n}.")
        s.say("The {h} went up the tree and [brought|gave] the {thing} back[| to {n}].", "The {h} went up, up, up and pushed the {thing} down.")
        s.say("\"Thank you, {h}!\" said {n}.", "{n} thanked the {h}.", "{n} was very happy and thanked the {h}.")
        s.say("{n} and the {h} [became|were] good friends.", "Now {n} had a new friend. They played [together |]all day.",
              "{n} shared {his} [lunch|snack] with the {h}.")
    else:
        s.say("{He} ran home to tell {his} {p}.", "{He} went to {his} {p} and asked for help.")
        s.say("{His} {p} [brought|got] a [long|tall] ladder and climbed up[| slowly].", "{His} {p} came with a long stick and pushed the {thing} down.")
        s.say("Soon, {n} had the {thing} back.", "\"Here is your {thing},\" said {his} {p}.")
        s.say("\"Thank you!\" said {n}.", "{n} [jumped with joy|gave {his} {p} a hug].")
        s.say("\"Next time, hold it tight,\" said {his} {p}.", "They played with the {thing} until it was [dark|time for dinner].",
              "After that, {n} held the {thing} tight.")
    s.maybe(0.4, *HAPPY)


def sharing(s):
    """Two friends want one toy; a grown-up helps them to take turns."""
    s.thing(w.TOYS)
    s.say("{day}, {n} [got|had|found] {athing}.", "{day}, {his} {p} gave {n} {athing}.")
    s.say("{He} [took it|went] to {place}, and {his} friend {f} came to play.", "{He} was playing with it {at} when {his} friend {f} came.")
    s.say("\"Can I play with the {thing}?\" asked {f}.", "{f} saw the {thing} and said, \"I want to play too!\"",
          "\"What a nice {thing}! May I have a turn?\" asked {f}.")
    s.say("\"No! It is mine,\" said {n}.", "But {n} did not want to share. \"It is my {thing},\" {he} said.",
          "{n} held the {thing} tight. \"No, you can not,\" {he} said.")
    s.say("{f} was [very |]sad and began to cry.", "{f} felt sad and walked away.", "{f} looked down. {fHe} was sad.")
    s.maybe(0.5, "{n} played alone, but it was not fun.", "{n} played by {him}self, but {he} felt [bad|lonely].")
    s.say("{His} {p} saw this and said, \"[Sharing is kind|Friends share their toys|It is more fun to play together], {n}.\"",
          "{n} saw that {f} was sad, and {he} felt bad [too|inside].",
          "Then {his} {p} came and said, \"{n}, you can take turns.\"")
    s.say("{n} thought about it. \"I am sorry, {f}. [You can play too|Let us share],\" {he} said.",
          "{n} went to {f} and said, \"I am sorry. Let us play together.\"",
          "So {n} gave the {thing} to {f}. \"It is your turn now,\" {he} said.")
    s.say("{f} smiled. \"Thank you, {n}!\"", "{f} was happy again.", "{f} gave {n} a hug.")
    s.say("They played with the {thing} all day[| and had so much fun].", "The two friends took turns and laughed[| a lot].",
          "{n} and {f} played together until the sun went down.")
    s.say("{n} learned that sharing is [fun|good|kind].", "{n} learned that it is more fun to share.",
          "From that day on, {n} always shared {his} toys.", "{n} was happy because {he} had a good friend.")


def afraid(s):
    """The hero fears something at night or outside, and finds there is no reason to."""
    cause = s.rng.choice([("a strange noise", "the wind in the trees"), ("a tapping sound", "a branch on the window"),
                          ("a scary shadow", "a coat on a chair"), ("a soft cry", "a little kitten"), ("a loud boom", "the rain and the thunder"),
                          ("two shining eyes", "an old owl"), ("a big dark shape", "a pile of blankets")])
    s.v.update(scare=cause[0], real=cause[1])
    s.pick("sense", ["saw" if any(k in cause[0] for k in ("shadow", "eyes", "shape")) else "heard"])
    s.say("But {n} was afraid of the dark.", "{n} had one problem. {He} was afraid of the dark.", "{n} did not like the night.")
    s.say("One night, {n} was in bed when {he} {sense} {scare}.", "One night, {n} woke up and {sense} {scare}.",
          "One dark night, {n} could not sleep. {He} {sense} {scare}.")
    s.say("\"[What is that|Who is there]?\" {he} [said|asked] in a [small|quiet] voice.", "{n} was so scared that {he} [hid under the blanket|could not move].",
          "{His} heart went boom, boom, boom.")
    if s.rng.random() < 0.6:
        s.say("{He} called {his} {p}.", "{n} ran to {his} {p}[| and held on tight].")
        s.say("\"Do not be afraid,\" said {his} {p}. \"Let us look together.\"", "\"I am here,\" said {his} {p}. \"We will go and see.\"")
        s.say("{His} {p} turned on the light.", "They walked slowly [to the door|across the room], hand in hand.", "They took a small lamp and went to look.")
        s.say("It was only {real}!", "And what did they see? It was just {real}.")
        s.say("{n} [laughed|smiled]. \"It is not scary at all,\" {he} said.", "\"Is that all?\" {n} said and laughed.")
        s.maybe(0.5, "{His} {p} gave {him} a [kiss|hug] and said, \"You were very brave.\"", "\"You see? There was nothing to fear,\" said {his} {p}.")
    else:
        s.say("But {n} wanted to be brave. {He} took a deep breath and [got up|went to look].", "\"I can be brave,\" {n} said to {him}self. {He} got out of bed.")
        s.say("Slowly, {he} turned on the light.", "Step by step, {he} came closer.", "{He} held {his} teddy and took one small step, then one more.")
        s.say("It was only {real}!", "There was no monster. It was just {real}.")
        s.say("{n} laughed out loud.", "{n} felt so [proud|brave].")
    s.say("{n} went back to bed and slept well.", "Soon, {n} was fast asleep.", "After that, {n} slept all night.")
    s.say("From that night on, {n} was not afraid of the dark.", "{n} learned that many things are not scary when you look at them.",
          "{n} learned that being brave means trying even when you are scared.", "Now {n} was not scared anymore.")


def hurt_animal(s):
    """The hero finds a hurt animal, cares for it, and lets it go."""
    pet, hurt = s.rng.choice([("bird", "wing"), ("rabbit", "leg"), ("squirrel", "leg"), ("deer", "leg"), ("fox", "paw"), ("duck", "wing"),
                              ("butterfly", "wing"), ("owl", "wing"), ("turtle", "foot"), ("kitten", "paw"), ("puppy", "paw")])
    s.v.update(pet=pet, hurt=hurt)
    s.say("{day}, {n} was walking {at} when {he} [saw|found] a {size} {pet}.", "{day}, {n} found a little {pet} {at}.",
          "{day}, {n} heard a soft sound {at}. It was a little {pet}.")
    s.say("The {pet} was hurt and could not [move|go home].", "Its {hurt} was hurt.", "The {pet} had a hurt {hurt} and looked very sad.")
    s.say("\"Poor {pet},\" said {n}. \"I will help you.\"", "{n} wanted to help. \"Do not be scared,\" {he} said.", "{n} felt sorry for the {pet}.")
    s.say("{He} picked it up [gently|with care] and took it home.", "{He} carried the {pet} home in {his} [hat|arms|basket].")
    s.say("{His} {p} [put a bandage on|washed] its {hurt}.", "{n} and {his} {p} made a soft bed for the {pet}.",
          "{His} {p} showed {him} how to take care of it.")
    s.say("{n} gave the {pet} [food and water|some water|something to eat] every day.", "Every day, {n} fed the {pet} and talked to it.",
          "Day after day, {n} took care of the {pet}.")
    s.say("Soon, the {pet} was [well|strong|better] again.", "After a week, the {hurt} was better.", "Slowly, the {pet} got better.")
    s.say("It was time to let it go. {n} was a little sad, but {he} knew it was right.",
          "{n} took the {pet} back to {place} and said goodbye.", "{n} opened the door and said, \"Now you can go home.\"")
    s.say("The {pet} looked back at {n} and went [home|away].", "The {pet} was happy to be free.")
    s.say("The next day, the {pet} came back to [visit|say thank you].", "Every [morning|spring], the {pet} came to visit {n}.",
          "{n} [waved|smiled] and felt warm inside.", "They were friends forever.")
    s.maybe(0.5, "{n} learned that it feels good to help others.", "{n} was proud because {he} had helped a friend.",
            "{His} {p} said, \"You have a kind heart, {n}.\"")


def baking(s):
    """The hero cooks for somebody, one thing is missing, and a neighbor or friend lends it."""
    food = s.pick("food", w.FOODS)
    s.v["was"], s.v["it"] = ("were", "them") if food in ("cookies", "pancakes") else ("was", "it")
    s.pick("missing", ["milk", "sugar", "butter", "flour", "salt", "honey"])
    s.say("{day}, {n} wanted to make {food} for {his} {p}.", "{day}, {n} said, \"I want to make {food} for my {p}.\"",
          "{day}, {n} had an idea. {He} wanted to make {food} for {his} {p}.")
    s.say("{He} [took|got] a [big|large] bowl and a spoon.", "{He} put on a [white|big|funny] hat and went to the kitchen.",
          "{He} looked for everything {he} needed.")
    s.say("But there was no {missing}[| in the kitchen]!", "Then {he} saw that there was no {missing}.", "\"Oh no, we have no {missing}!\" {he} said.")
    s.say("So {n} went to {his} friend {f}.", "{n} ran to the house of {his} friend {f}.", "{n} knocked on the door of {his} friend {f}.")
    s.say("\"Do you have some {missing}?\" {he} asked.", "\"Can you give me some {missing}, please?\" asked {n}.")
    s.say("\"Yes, of course,\" said {f}. \"Can I help you?\"", "{f} gave {him} the {missing} and [asked to help|came along].",
          "\"Yes! I have a lot of {missing},\" said {f}. \"Let us make the {food} together.\"")
    s.say("They mixed and mixed[| and laughed a lot].", "{n} and {f} worked together in the kitchen.", "Together they mixed everything in the bowl.")
    s.maybe(0.5, "There was {missing} on the floor and on their faces!", "It was a big mess, but they cleaned it up.", "They waited and waited.")
    s.say("Soon, the house smelled very good.", "The {food} smelled so good.", "At last, the {food} {was} ready.")
    s.say("When {his} {p} came home, {he} said, \"Surprise!\"", "{n} gave the {food} to {his} {p}. \"I made {it} for you,\" {he} said.")
    s.say("{His} {p} [tasted it|took a bite] and smiled. \"I love {it}!\"", "\"Yum!\" said {his} {p}. \"This is the best {food} in the world.\"")
    s.say("They all [sat down and ate|ate] together.", "{n}, {f} and {his} {p} ate {it} all up.", "{n} gave {f} the biggest [part|piece].")
    s.maybe(0.6, "{n} learned that working together is fun.", "{n} was proud and happy.", *HAPPY)


def garden(s):
    """The hero plants a seed and learns to wait."""
    s.pick("plant", w.FLOWERS)
    s.pick("color", w.COLORS[:8])
    s.say("{day}, {n} found a [tiny|small|little] seed.", "{day}, {his} {p} gave {n} a [tiny|small|little] seed.")
    s.say("\"What will it be?\" asked {n}. \"You must wait and see,\" said {his} {p}.", "\"I will plant it in the garden,\" {he} said.",
          "{n} wanted to see it grow.")
    s.say("{He} made a [small|little] hole and put the seed in it.", "{He} put the seed in the ground and covered it with [earth|soil].")
    s.say("Every day, {he} gave it water.", "{n} watered it every morning.")
    s.say("But nothing happened. {n} was sad.", "{He} waited and waited, but nothing came up.", "One day went by, then two, then three. Nothing grew.")
    s.say("\"Maybe it is a bad seed,\" {he} said.", "\"Why does it not grow?\" {n} asked.", "{n} wanted to give up.")
    s.say("\"Good things take time,\" said {his} {p}.", "\"Be patient,\" {his} {p} said. \"It needs sun, water and love.\"",
          "{His} {p} said, \"Wait a little more.\"")
    s.say("So {n} did not give up.", "So {n} waited [some more|a little longer] and [sang to the seed|watered it with care].")
    s.say("Then, one morning, {he} saw a [tiny|small] green leaf!", "At last, something green came out of the ground.",
          "One day, it rained, and then the sun came out. A green leaf came up!")
    s.say("It grew and grew[| and grew]. It was a [big|beautiful] {plant}!", "The little leaf grew into a [big|beautiful|tall] {plant}.")
    s.say("\"Look! It is so [pretty|big]!\" {n} [said|cried].", "{n} danced around it with joy.", "{n} was so proud of the {plant}.")
    s.say("{n} learned to be patient.", "{n} learned that good things take time.", "{n} showed it to {his} friend {f}, and they sat next to it all day.",
          "{His} {p} hugged {him} and said, \"You did it!\"")


def lost_way(s):
    """The hero walks too far, and an animal shows the way home."""
    s.pick("h", w.HELPERS)
    s.v["ah"] = article(s.v["h"])
    s.pick("fruits", w.FRUITS)
    s.say("{day}, {n} went for a walk in the [woods|forest].", "{day}, {n} followed a [pretty|blue|yellow] butterfly into the [woods|forest].",
          "{day}, {n} went to the [woods|forest] to look for {fruits}.")
    s.say("{He} walked and walked[| and did not look back].", "{He} went too far[| from home].", "{He} walked down a long path.")
    s.say("Soon, {he} did not know where {he} was.", "Then {n} looked around. {He} was lost!", "When {he} wanted to go home, {he} could not find the way.")
    s.say("\"I want to go home,\" {he} [said|cried].", "{n} sat down under a tree and cried.", "It was getting dark, and {n} was scared.")
    s.say("Then {ah} came out from behind a tree.", "Just then, {ah} came by.", "Suddenly, {ah} was there.")
    s.say("\"Why are you crying?\" asked the {h}.", "\"Are you lost?\" the {h} asked.", "\"Hello, little {kind},\" said the {h}. \"What is wrong?\"")
    s.say("\"I am lost,\" said {n}. \"Can you help me?\"", "\"I can not find my home,\" said {n}.")
    s.say("\"I know the way. Follow me,\" said the {h}.", "\"Do not worry. I will show you the way,\" said the {h}.")
    s.say("They went over the hill and across the [river|bridge].", "They walked past the big rock and the old tree.", "The {h} went first, and {n} followed.")
    s.say("At last, {n} saw {his} house.", "Soon, {n} could see the lights of {his} home.")
    s.say("{His} {p} was waiting at the door and gave {him} a big hug.", "\"{n}! I was so worried!\" said {his} {p}.",
          "{His} {p} ran to {him} and hugged {him} tight.")
    s.say("\"Thank you, {h}!\" said {n}.", "{n} thanked the {h} and gave it some [bread|food|cake].")
    s.say("After that, {n} never went too far from home[| alone].", "{n} learned to stay close to home.", "From that day on, {n} and the {h} were friends.")


def broke(s):
    """Something breaks; the hero tells the truth and is forgiven."""
    s.pick("item", ["cup", "plate", "lamp", "vase", "clock", "window", "bowl"])
    s.say("{day}, {n} was [running|jumping|dancing|playing] in the house.", "{day}, {n} threw {his} ball in the house.")
    s.say("Crash! The [big|pretty|blue|old] {item} [broke|was broken].", "Bang! {He} hit the {item}, and it broke.",
          "Suddenly, there was a loud crash. The {item} of {his} {p} was broken.")
    s.say("\"Oh no!\" said {n}. \"What will I do?\"", "{n} was scared. {He} did not want {his} {p} to be angry.", "{n} looked at the pieces and felt [bad|sick].")
    if s.rng.random() < 0.5:
        s.say("{He} [hid|put] the pieces [under the bed|behind the door|under a blanket|in a box].")
        s.say("{n} tried to play, but {he} could not stop thinking about it.", "All day, {he} felt bad inside.")
    else:
        s.say("\"Maybe I can say the wind did it,\" {he} thought.", "{He} wanted to run away and hide.")
        s.say("But {n} knew that a lie is not right.", "But {he} knew that it was wrong to lie.")
    s.say("Then {his} {p} came in and asked, \"What happened?\"", "When {his} {p} came home, {n} went to the door.")
    s.say("{n} took a deep breath. \"I broke the {item}. I am sorry,\" {he} said.", "\"It was me,\" said {n}. \"I broke the {item}, and I am very sorry.\"")
    s.say("{His} {p} was not angry. \"Thank you for telling the truth,\" said {his} {p}.",
          "{His} {p} looked at {him} and smiled. \"I am glad that you told me the truth.\"",
          "\"I am a little sad about the {item},\" said {his} {p}, \"but I am proud that you told the truth.\"")
    s.say("They cleaned up [the pieces |]together.", "Together, they fixed the {item} with [glue|a lot of glue].", "{n} helped to clean up.")
    s.say("{n} felt much better.", "{n} gave {his} {p} a big hug.", "{n} was [so |very ]happy that {he} had told the truth.")
    s.say("{n} learned that it is always best to tell the truth.", "From that day on, {n} always told the truth.", "After that, {n} did not play ball in the house.",
          "{n} learned to say sorry.")


PLOTS = [lost_thing, stuck_high, sharing, afraid, hurt_animal, baking, garden, lost_way, broke] + MORE
