"""More plots, under the same promise as those of plots.py."""

import words as w


def new_friend(s):
    """A lonely hero meets a new friend."""
    s.thing(w.TOYS)
    s.say("But {n} was lonely[| because {he} had no one to play with].", "{n} did not have any friends[| and felt lonely].",
          "{n} wanted to have a friend.")
    s.say("{day}, {n} went to {place} and saw {afkind}.", "{day}, {n} met {afkind} {at}.", "{day}, {afkind} was sitting {at}.")
    s.say("\"Hello! My name is {n}. What is your name?\" {he} asked.", "{n} was a little shy, but {he} said, \"Hi! I am {n}.\"")
    s.say("\"I am {f},\" said the {fkind}.", "\"My name is {f},\" the {fkind} said with a smile.")
    s.say("\"Do you want to play with me?\" asked {n}.", "\"Will you be my friend?\" {n} asked.", "{n} showed {f} {his} {color} {thing}. \"Do you want to play?\"")
    s.say("\"Yes! I would love to,\" said {f}.", "\"Yes, please!\" said {f}.", "{f} was so happy. \"Yes!\" {fhe} said.")
    s.say("They ran, jumped and laughed.", "They played games [all day|until it was dark].", "They played hide and seek {at}.")
    s.maybe(0.5, "{n} fell down, and {f} helped {him} up.", "{f} had [some apples|some berries|some bread|a big cookie] and shared with {n}.",
            "They told each other funny stories.")
    s.say("When it was time to go home, {n} said, \"Can we play again?\"", "The sun went down. \"Will you come again?\" asked {n}.")
    s.say("\"Yes, tomorrow!\" said {f}.", "\"See you tomorrow!\" said {f}.")
    s.say("{n} ran home and told {his} {p} about {his} new friend.", "{n} was not lonely anymore.", "That night, {n} was very happy.")
    s.say("From that day on, {n} and {f} were best friends.", "{n} and {f} played together every day.", "{n} learned that a smile can make a friend.")


def race(s):
    """Two friends race; the fast one is proud, the other is kind."""
    s.say("{n} was very fast[| and very proud of it].", "{n} could run very fast.", "{n} always said, \"I am the fastest {kind} in the world!\"")
    s.say("{day}, {n} and {his} friend {f} had a race {at}.", "{day}, {n} said to {his} friend {f}, \"Let us have a race!\"")
    s.say("\"I will win,\" said {n}. \"You are too slow.\"", "\"You can not beat me,\" {n} said and laughed.")
    s.say("\"I will do my best,\" said {f}.", "{f} only smiled. \"Let us see,\" {fhe} said.")
    s.say("One, two, three, go! {n} ran as fast as {he} could.", "They began to run. {n} was [far ahead|in front].")
    if s.rng.random() < 0.5:
        s.say("But {n} did not look where {he} was going, and {he} fell [over a rock|into the mud].", "Then {n} fell over a [stone|stick] and hurt {his} [foot|leg].")
        s.say("\"Ouch!\" {he} cried.", "{n} could not get up.")
        s.say("{f} could win now, but {fhe} stopped. \"Are you okay?\" {fhe} asked.", "{f} stopped and ran back. \"Let me help you,\" {fhe} said.")
        s.say("{f} helped {n} to stand up.", "{f} took {n} by the hand.")
        s.say("They [walked|went] over the line together.", "They finished the race side by side.")
        s.say("\"Thank you, {f}. You are a true friend,\" said {n}.", "\"I am sorry that I laughed at you,\" said {n}.")
        s.say("{n} learned that being kind is better than winning.", "{n} learned that a good friend is better than a prize.")
    else:
        s.say("{n} looked back and thought, \"I have a lot of time.\" {He} [sat down|took a nap] under a tree.", "Soon, {n} stopped to [rest|eat some berries|play with a butterfly].")
        s.say("But {f} did not stop. {fHe} went on and on.", "{f} kept going, step by step.")
        s.say("When {n} looked up, {f} was at the end!", "{n} ran and ran, but it was too late.")
        s.say("{f} won the race!", "{f} was the winner.")
        s.say("{n} was sad, but then {he} smiled. \"You did well, {f},\" {he} said.", "\"You won because you did not give up,\" said {n}.")
        s.say("{n} learned not to be too proud.", "{n} learned to never stop before the end.", "After that, {n} never laughed at {f} again.")
    s.maybe(0.4, "They ate some cake and laughed together.", "And they were still best friends.", "Then they played together all day.")


def rainy(s):
    """Rain spoils a plan; an idea saves the day."""
    s.v["crown"] = "queen" if s.v["fhe"] == "she" else "king"
    s.say("{day}, {n} wanted to go to {place} with {his} friend {f}.", "{day}, {n} and {his} friend {f} wanted to play {at}.")
    s.say("But then it began to rain.", "But dark clouds came, and it [rained and rained|started to rain].", "But the rain came down, drip, drop, drip, drop.")
    s.say("\"Oh no! Now we can not go,\" said {n}.", "{n} was sad and looked out of the window.", "\"Rain, rain, go away,\" {n} said.")
    s.say("\"I have an idea,\" said {f}. \"Let us [build a house of blankets|make a boat out of a box|put on a show|paint a big picture]!\"",
          "{His} {p} said, \"You can [build a house of blankets|play inside|paint a picture].\"",
          "Then {f} said, \"We can have fun inside.\"")
    s.say("They took [blankets|boxes], pillows and chairs.", "They got paper, paint and an old box.", "They looked for things in every room.")
    s.say("{n} was the captain, and {f} was the [cook|pirate|{crown}].",
          "They made a big castle and laughed.", "{n} sang a song, and {f} danced.")
    s.say("They had so much fun that they forgot the rain.", "It was more fun than {place}!", "{His} {p} came in with warm milk and cookies.")
    s.say("Then the rain stopped, and the sun came out.", "After a while, the sun came out again.")
    s.say("\"Look! A rainbow!\" said {f}.", "There was a big rainbow in the sky.", "{n} saw a rainbow. \"It is so [pretty|beautiful]!\" {he} said.")
    s.say("They ran outside and jumped in the puddles. Splash!", "They went outside and looked at all the colors.")
    s.say("\"I love rainy days,\" said {n}.", "{n} learned that a rainy day can be fun.", "It was a [great|wonderful] day after all.")


def building(s):
    """Something the hero builds falls down; trying again works."""
    s.pick("b", ["tower", "castle", "house", "bridge", "snowman", "tree house"])
    s.v["of"] = {"snowman": "snow", "castle": "sand", "tower": "blocks"}.get(s.v["b"], "wood")
    s.say("{day}, {n} wanted to [make|build] a big {b} [out of|of] {of}.", "{day}, {n} said, \"I will build the biggest {b} in the world!\"")
    s.say("{He} worked [hard |]all morning.", "{He} put one piece on top of the other.", "{He} took a lot of {of} and began to work.")
    s.say("But then the {b} fell down. Boom!", "But the wind blew, and the {b} fell down.", "Crash! The {b} fell down.")
    s.say("{n} was [angry|sad]. \"I can not do it,\" {he} said.", "\"I give up!\" said {n}.", "{n} wanted to cry.")
    s.say("{His} friend {f} came and asked, \"What is wrong?\"", "{f}, {his} friend, saw this and came to {him}.")
    s.say("\"My {b} fell down,\" said {n}.", "{n} told {f} about the {b}.")
    s.say("\"Let us try again,\" said {f}. \"I will help you.\"", "\"You must not give up,\" {f} said. \"We can do it together.\"")
    s.say("This time, they made it [strong|wide] at the bottom.", "They worked slowly and with care.", "{n} held it, and {f} put the pieces on top.")
    s.say("The {b} got bigger and bigger.", "Soon, the {b} was taller than {n}!")
    s.say("\"We did it!\" they [said|cried].", "At last, it was done. It did not fall down.", "It was the best {b} {n} had ever seen.")
    s.say("{His} {p} came to see it. \"Wow! What a great {b}!\"", "They put a little flag on top.", "{n} and {f} danced around it.")
    s.say("{n} learned to never give up.", "{n} learned that it is good to try again.", "{n} learned that two friends can do more than one.",
          "{n} said, \"Thank you for your help, {f}.\"")


def gift(s):
    """It is a birthday; the best gift is made, not bought."""
    s.pick("g", ["card", "picture", "necklace", "hat", "song", "box"])
    s.say("{day}, it was the birthday of {his} {p}.", "{day}, {n} remembered that it was the birthday of {his} {p}.")
    s.say("{n} wanted to give {phim} [a gift|something special].", "\"What can I give {phim}?\" thought {n}.")
    s.say("But {he} had no money.", "{He} looked in {his} [bag|box|pocket], but there was no money in it.")
    s.say("{n} was sad. Then {he} had an idea.", "{He} thought and thought. Then {he} smiled.", "\"I know!\" {he} said. \"I will make something.\"")
    s.say("{He} made a [pretty|beautiful|colorful] {g}.", "{n} worked all morning and made a {g}.", "{He} asked {his} friend {f} for help, and they made a {g}.")
    s.maybe(0.5, "It was not easy, but {he} did {his} best.", "It took a long time.")
    s.say("In the evening, {n} said, \"Happy birthday!\"", "\"Happy birthday!\" said {n} and gave {phim} the {g}.")
    s.say("{His} {p} [looked|smiled] and had tears of joy.", "{His} {p} was so [surprised|happy].")
    s.say("\"Did you make this for me?\" {phe} asked. \"Yes,\" said {n}.", "\"This is the best {g} in the world,\" {phe} said.")
    s.say("\"I love it, because it comes from your heart,\" said {his} {p}.", "\"Thank you, my dear {n},\" said {his} {p}.")
    s.say("They ate cake and sang songs.", "They hugged for a long time.", "Then they had a big party[| with cake and music].")
    s.say("{n} learned that the best gifts come from the heart.", "{n} was happy because {his} {p} was happy.", "It was a wonderful birthday.")


def too_much(s):
    """The hero does not listen and eats too much."""
    s.pick("food", ["cookies", "candy", "pudding", "berries", "honey", "nuts"])
    s.v["it"] = "them" if s.v["food"] in ("cookies", "berries", "nuts") else "it"
    s.v["was"] = "were" if s.v["it"] == "them" else "was"
    s.say("{n} loved {food}[| more than anything].", "More than anything, {n} liked to eat {food}.")
    s.say("{day}, {his} {p} put a big bowl of {food} on the table.", "{day}, there was a big bowl of {food} in the kitchen.")
    s.say("\"You may have a little,\" said {his} {p}, \"but do not eat too much.\"", "\"Please wait until after dinner,\" {his} {p} said and went outside.")
    s.say("But the {food} smelled so good.", "{n} looked at the {food}. {He} was very hungry.")
    s.say("{He} ate a little. Then {he} ate some more.", "\"Just a little,\" {he} thought and took some.", "{n} looked around. No one was there.")
    s.say("Soon, the bowl was empty!", "{He} ate and ate until the {food} {was} gone.", "{He} ate all of {it}!")
    s.say("Then {his} tummy began to hurt.", "After that, {n} felt very sick.", "\"Ouch, my tummy!\" said {n}.")
    s.say("{He} lay down on {his} bed and cried.", "{He} could not play[| with {his} friend {f}].")
    s.say("{His} {p} came and asked, \"Did you eat all the {food}?\"", "{His} {p} saw the empty bowl and asked, \"Did you do this?\"")
    s.say("\"Yes,\" said {n}. \"I am sorry. I did not listen.\"", "{n} looked down. \"I ate too much. I am sorry,\" {he} said.")
    s.say("{His} {p} gave {him} some warm tea.", "{His} {p} sat with {him} and held {his} hand.", "\"Rest now,\" said {his} {p}. \"You will be fine.\"")
    s.say("The next day, {n} felt better.", "In the morning, {his} tummy was fine again.")
    s.say("{n} learned to listen to {his} {p}.", "{n} learned that too much of a good thing is not good.", "After that, {n} never ate too much again.",
          "From then on, {n} always shared {his} {food}.")


def magic(s):
    """A magic thing grants a wish; the hero uses it for somebody else."""
    s.pick("m", ["stone", "lamp", "shell", "ring", "feather", "flower", "coin"])
    s.v["trouble"], s.v["wish"], s.v["done"] = s.rng.choice([
        ("{f} was sick and had to stay in bed", "{f} to be well", "{f} was well again"),
        ("{f} had lost {fhis} home", "a new home for {f}", "there was a cozy little house for {f}"),
        ("{f} was hungry and had nothing to eat", "food for {f}", "there was a table full of food"),
        ("{f} was cold and had no coat", "a warm coat for {f}", "{f} had a warm coat"),
        ("{f} could not find {fhis} mom", "{f} to find {fhis} mom", "the mom of {f} came down the road"),
        ("{f} was sad and did not smile", "{f} to be happy", "{f} began to laugh")])
    for k in ("trouble", "wish", "done"):
        s.v[k] = s.v[k].format_map(s.v)
    s.say("{day}, {n} found a [shiny|magic|strange|golden] {m} {at}.", "{day}, {n} saw something shiny {at}. It was a {m}.")
    s.say("\"I am a magic {m},\" it said. \"You have one wish.\"", "When {he} touched it, a [soft|small] voice said, \"Make a wish!\"",
          "The {m} began to [shine|glow]. \"I will give you one wish,\" it said.")
    s.say("{n} was so [surprised|excited].", "\"Wow! A wish!\" said {n}.")
    s.say("{He} thought of [many toys|a big cake|a pony|a mountain of candy|a golden crown].", "\"I could have all the toys in the world,\" {he} thought.")
    s.say("Then {n} saw {his} friend {f}.", "On the way home, {n} met {his} friend {f}.", "Just then, {n} thought of {his} friend {f}.")
    s.say(s.v["trouble"][0].upper() + s.v["trouble"][1:] + ".", "{n} knew that {trouble}.")
    s.say("{n} felt sorry for {f}.", "{n} looked at the {m} for a long time.", "Now {n} knew what to wish for.")
    s.say("\"I wish for {wish},\" said {n}.", "{n} held the {m} and said, \"I wish for {wish}.\"")
    s.say("There was a bright light, and {done}.", "Puff! In a moment, {done}.", "And then, like magic, {done}.")
    s.say("\"Thank you, {n}!\" said {f}.", "{f} hugged {n}. \"You are so kind,\" {fhe} said.")
    s.say("The {m} was gone, but {n} was happy.", "The {m} did not glow anymore, but {n} did not mind.")
    s.say("{n} learned that helping a friend is the best magic.", "{n} knew that a good heart is better than many toys.",
          "And {n} and {f} were friends forever.", "They lived happily ever after.")


def learn(s):
    """The hero learns a skill by trying many times."""
    s.v["skill"], s.v["fail"] = s.rng.choice([
        ("ride a bike", "fell off"), ("swim", "went under the water"), ("skate", "fell down"), ("climb the tall tree", "slid down"),
        ("whistle", "made no sound"), ("tie {his} shoes", "made a big knot"), ("juggle", "dropped the balls"),
        ("jump over the fence", "hit the fence"), ("write {his} name", "broke the pencil"), ("dance", "fell over {his} own feet")])
    for k in ("skill", "fail"):
        s.v[k] = s.v[k].format_map(s.v)
    s.say("{n} wanted to learn to {skill}.", "More than anything, {n} wanted to {skill}.", "{n} had a dream. {He} wanted to {skill}.")
    s.say("{day}, {he} tried it for the first time, but {he} {fail}.", "{day}, {n} tried to {skill}, but {he} {fail}.")
    s.say("{He} tried again, and again {he} {fail}.", "{His} friend {f} [laughed|saw it and laughed].", "\"It is too hard,\" said {n}.")
    s.say("{n} was [sad|upset]. \"I will never learn it,\" {he} said.", "{n} sat down and cried.", "{n} wanted to give up.")
    s.say("{His} {p} came and sat next to {him}.", "Then {his} {p} said, \"I will help you.\"")
    s.say("\"Everyone makes mistakes at first,\" said {his} {p}.", "\"You only need to practice,\" {his} {p} said.",
          "\"When I was little, I could not do it either,\" said {his} {p}.")
    s.say("So {n} tried again. {His} {p} showed {him} how to do it.", "{n} got up and tried one more time.")
    s.say("{He} practiced every day.", "Every morning and every evening, {n} practiced.", "{He} practiced on Monday, on Tuesday and on Wednesday.")
    s.say("Slowly, it got easier.", "Each day, {he} got a little better.")
    s.say("And one day, {he} could do it!", "Then, at last, {n} could {skill}!", "And then, all at once, {n} could {skill}!")
    s.say("\"Look at me!\" {n} [said|cried] with joy.", "\"I did it! I did it!\" said {n}.", "{His} {p} clapped and cheered.")
    s.say("\"I knew that you could do it,\" said {his} {p}.", "{n} was so proud.", "{n} showed {his} friend {f} how to {skill}.")
    s.say("{n} learned that practice makes you better.", "{n} learned to never give up.", "From that day on, {n} was not afraid to try new things.")


def sleepy(s):
    """The hero can not sleep; something calm helps."""
    s.pick("help", ["count the stars", "count sheep", "listen to the wind", "think of a happy day", "listen to a soft song"])
    s.say("One night, {n} could not sleep.", "It was late at night, but {n} was not tired.", "One night, {n} was in bed, but {his} eyes did not want to close.")
    s.say("{He} turned to the left and then to the right.", "{He} looked at the moon and the stars.", "{He} drank some water, but it did not help.")
    s.say("{He} went to {his} {p} and said, \"I can not sleep.\"", "\"I can not sleep,\" {he} told {his} {p}.")
    s.say("\"Come here,\" said {his} {p}. \"I will tell you a story.\"", "{His} {p} made a cup of warm milk for {him}.", "{His} {p} took {him} back to bed.")
    s.say("\"Close your eyes and {help},\" said {his} {p}.", "\"When I can not sleep, I {help},\" {his} {p} said.")
    s.say("So {n} closed {his} eyes and began to {help}.", "{n} wanted to try it. {He} lay down and began to {help}.")
    s.say("Slowly, {he} felt [warm|calm] and sleepy.", "{His} eyes became [heavy|tired].", "{n} smiled and held {his} teddy.")
    s.say("Soon, {n} was fast asleep.", "Before long, {he} was asleep.")
    s.say("{He} dreamed of [a flying boat|a big castle|a land of candy|a trip to the moon|a garden full of flowers].",
          "In {his} dream, {he} and {his} friend {f} [flew over the clouds|sailed over the sea|danced with the stars].")
    s.say("In the morning, the sun came in, and {n} woke up happy.", "When {he} woke up, the birds were singing.", "{n} slept until the morning.")
    s.say("\"Good morning!\" said {his} {p}. \"Did you sleep well?\" \"Yes!\" said {n}.", "{n} told {his} {p} about the dream.")
    s.say("After that, {n} always knew how to fall asleep.", "From then on, {n} liked to go to bed.", "And every night, {n} remembered to {help}.")


def found_pet(s):
    """A sound leads to a small animal that needs a home."""
    s.pick("pet", ["kitten", "puppy", "duckling", "bunny", "chick", "mouse"])
    s.v["bed"] = s.rng.choice(w.HIDING)
    s.pick("petname", ["Fluffy", "Spot", "Snowy", "Buttons", "Whiskers", "Cookie", "Sunny", "Pepper"])
    s.say("{day}, {n} heard a [small|strange|funny] sound.", "{day}, {n} was at home when {he} heard something.")
    s.say("\"What is that?\" {he} said.", "{n} was curious and went to look.", "\"Who is making that sound?\" asked {n}.")
    s.say("{He} looked {bed} and [saw|found] a [tiny|little] {pet}.", "It came from a little {pet} {bed}.")
    s.say("The {pet} was [cold and hungry|all alone|wet and cold].", "The {pet} looked at {n} with big eyes.")
    s.say("{n} gave it some [milk|water|food] and a warm blanket.", "{n} picked it up and held it close.")
    s.say("\"Can I keep it[|, please]?\" {he} asked {his} {p}.", "{n} ran to {his} {p}. \"Look what I found! Can it stay?\"")
    s.say("{His} {p} thought for a moment. \"You must take care of it every day,\" {phe} said.", "\"It is a lot of work,\" said {his} {p}. \"Will you help?\"")
    s.say("\"I will! I promise!\" said {n}.", "\"Yes, I will feed it every day,\" {n} said.")
    s.say("\"Then it can stay,\" said {his} {p}.", "{His} {p} smiled and said yes.")
    s.say("{n} named the {pet} {petname}.", "\"I will call you {petname},\" said {n}.")
    s.say("{n} and {petname} played together every day.", "{petname} slept [next to {his} bed|in a little basket] every night.", "{petname} followed {n} everywhere.")
    s.say("{n} kept {his} promise and took good care of {petname}.", "{n} had never been so happy.", "They were best friends forever.", "And {petname} was never alone again.")


MORE = [new_friend, race, rainy, building, gift, too_much, magic, learn, sleepy, found_pet]
SOLO = {new_friend}  # plots that may not open with a friend
