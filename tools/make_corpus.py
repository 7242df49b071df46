"""Make the bundled English-French corpus, and the sentences held out from it.

    python tools/make_corpus.py            writes english-french.tsv and held-out.tsv
    python tools/make_corpus.py --counts   also says how many sentences each phenomenon has

A sentence starts as a meaning: who does what, where and when, asked or denied. `in_english` and
`in_french` say it, each by a syntax tree of pyrealb, which inflects, agrees, elides and contracts.
The words stand in tools/corpus/lexicon.txt, fixed phrases in idioms.tsv beside it. In reading
order: the lexicon, the meanings, English, French, words that go together, the phenomena (one small
function makes up one sentence of its kind), and the choice of sentences.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pyrealb import NO, NP, PP, VP, A, C, D, N, P, Pro, Q, S, V, addToLexicon, loadEn, loadFr
from pyrealb.Lexicon import getLexicon, getRules

WORDS = Path(__file__).parent / "corpus"
CORPUS = Path(__file__).parent.parent / "d2l_mini" / "corpus"
SEED = 1
MAX_TOKENS = 9  # a side, punctuation included
MIN_COUNT = 5  # sentences that a word must occur in, to be learnt
SHORT = 20  # a sentence of fewer characters keeps to beginners' words
MAX_SHORT = 60  # such sentences of one phenomenon: the first lines are to teach all of them
BEGINNING = 600  # lines that the book trains on
HELD_OUT = 25  # sentences of each phenomenon that the corpus leaves out


# ---------------------------------------------------------------- the lexicon


@dataclass(frozen=True)
class Word:
    """A line of lexicon.txt: `beginner` is its star, `kinds` the words of its further columns."""

    english: str
    french: str
    kinds: frozenset[str] = frozenset()
    beginner: bool = True

    @property
    def gender(self) -> str:
        """Of a noun."""
        return "f" if "f" in self.kinds else "m"


def read_lexicon(path: Path) -> dict[str, list[Word]]:
    """The sections of lexicon.txt by name, each a list of words in the file's order."""
    sections: dict[str, list[Word]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            words = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            english, french, *rest = re.split(r"\s{2,}", line.strip())
            kinds = frozenset(" ".join(rest).split())
            words.append(Word(english.rstrip("*"), french, kinds, english.endswith("*")))
    return sections


LEXICON = read_lexicon(WORDS / "lexicon.txt")
NOUNS, NAMES, ADJECTIVES = LEXICON["nouns"], LEXICON["names"], LEXICON["adjectives"]
VERBS, ACTIONS, MOVES = LEXICON["verbs"], LEXICON["actions"], LEXICON["moves"]
STATES, REFLEXIVES, TIMES = LEXICON["states"], LEXICON["reflexives"], LEXICON["times"]
NOUN = {noun.english: noun for noun in NOUNS}
VERB = {verb.english: verb for verb in VERBS + ACTIONS + MOVES}
BE = Word("be", "être", frozenset({"state", "ask"}))
BE_IN_A_STATE = Word("be", "avoir", frozenset({"state", "ask"}))
LIKE = Word("like", "aimer", frozenset({"state", "lasting", "ask"}))
GIVE, SHOW = Word("give", "donner"), Word("show", "montrer")


# ---------------------------------------------------------------- meanings


@dataclass(frozen=True)
class Person:
    """I, you, he ... "You" is one person; "I", "you", "we" and "they" are masculine."""

    owner: str
    person: int
    number: str = "s"
    gender: str = "m"
    beginner: bool = True


I, YOU, HE, SHE, WE, THEY = PERSONS = (  # noqa: E741
    Person("my", 1),
    Person("your", 2),
    Person("his", 3),
    Person("her", 3, gender="f"),
    Person("our", 1, "p"),
    Person("their", 3, "p"),
)
IT = Person("its", 3, gender="n")  # only in "it's a dog": c'est un chien


@dataclass(frozen=True)
class Thing:
    """A noun phrase: the big dog, my sister, Emma's keys, three apples, some bread.

    determiner  the, a, some, this, all (I like dogs: les), none (Emma), a number, or the owner
    apposition  the name in "my friend Emma"
    """

    noun: Word
    determiner: str | int | Person | Thing = "the"
    plural: bool = False
    adjective: Word | None = None
    apposition: Word | None = None

    @property
    def beginner(self) -> bool:
        """Whether all its words are beginners' words."""
        owner = None if isinstance(self.determiner, str | int) else self.determiner
        return easy(self.noun, self.adjective, self.apposition, owner)

    @property
    def gender(self) -> str:
        """My friend Emma is feminine."""
        return (self.apposition or self.noun).gender


@dataclass(frozen=True)
class Where:
    """A preposition, in both languages, and the thing it governs."""

    english: str
    french: str
    thing: Thing

    @property
    def beginner(self) -> bool:
        """As of a thing."""
        return self.thing.beginner


@dataclass(frozen=True)
class Clause:
    """Who does what to whom, where and when."""

    subject: Thing | Person
    verb: Word
    object: Thing | Person | None = None
    complement: Word | Where | None = None
    tense: str = "present"  # past, future
    negative: bool = False
    question: bool = False
    asks: Word | None = None  # where/où
    often: Word | None = None  # often/souvent, never/jamais
    when: Word | None = None
    modal: str = ""  # want, can, must
    order: str = ""  # plain, please, together
    reflexive: bool = False

    @property
    def beginner(self) -> bool:
        """Whether it keeps to beginners' words and has no adverb."""
        plain = self.order != "please" and not (self.when or self.often)
        return plain and easy(self.subject, self.verb, self.object, self.complement)

    @property
    def now(self) -> bool:
        """Of this moment: English says "I'm eating" or "I see"."""
        return self.tense == "present" and not (self.habit or self.modal or self.order)

    @property
    def habit(self) -> bool:
        """Of every day, often or never: English says "I eat"."""
        when = self.when is not None and "habit" in self.when.kinds
        return self.tense == "present" and (self.often is not None or when)

    @property
    def progressive(self) -> bool:
        """I'm eating."""
        return self.now and "state" not in self.verb.kinds


def easy(*parts: Word | Thing | Where | Person | None) -> bool:
    """Whether every part keeps to beginners' words."""
    return all(part is None or part.beginner for part in parts)


class Pair(NamedTuple):
    """A sentence in both languages, and whether it keeps to beginners' words."""

    english: str
    french: str
    beginner: bool = False


def realize(tree: S | NP | PP) -> str:
    """The text of a pyrealb tree. What the library cannot say stops the program."""
    warnings = io.StringIO()
    with contextlib.redirect_stderr(warnings):
        text = tree.realize().strip()
    if warnings.getvalue() or "[[" in text:
        raise ValueError(f"pyrealb cannot say {text!r}: {warnings.getvalue()}")
    return text


# ---------------------------------------------------------------- English

CONTRACTIONS = [
    (r"^(I) am\b", r"\1'm"),
    (r"^(He|She|There|It) is\b(?! not)", r"\1's"),
    (r"^(You|We|They) are\b(?! not)", r"\1're"),
    (r"^(I|You|He|She|We|They) will\b(?! not)", r"\1'll"),
    (r"\b(is|are|do|does|did) not\b", r"\1n't"),
    (r"\bwill not\b", "won't"),
    (r"\bcan ?not\b", "can't"),
]


def contract(text: str) -> str:
    """I am: I'm. She is not: she isn't."""
    for long, short in CONTRACTIONS:
        text = re.sub(long, short, text)
    return text


def english_thing(thing: Thing | Person, case: str = "acc") -> NP | Pro:
    """The tree of a noun phrase or a pronoun; a subject's `case` is "nom"."""
    if isinstance(thing, Person):
        return Pro("me").pe(thing.person).n(thing.number).g(thing.gender).c(case)
    determiner, words = thing.determiner, []
    if isinstance(determiner, Person):
        words.append(Q(determiner.owner))
    elif isinstance(determiner, Thing):
        words.append(Q(realize(english_thing(determiner)) + "'s"))
    elif isinstance(determiner, int):
        words.append(NO(determiner).nat())
    elif determiner not in ("all", "none"):
        words.append((Q if determiner in ("some", "any") else D)(determiner))
    if thing.adjective:
        words.append(Q(thing.adjective.english))
    words.append((Q if thing.noun in NAMES else N)(thing.noun.english))
    if thing.apposition:
        words.append(Q(thing.apposition.english))
    return NP(*words).n("p" if thing.plural else "s")


def english_where(where: Where) -> PP:
    """To the market, to school."""
    thing = where.thing
    if "bare" in thing.noun.kinds and where.english in ("to", "from", "at"):
        thing = replace(thing, determiner="none")
    return PP(Q(where.english), english_thing(thing))


def some_or_any(clause: Clause) -> str:
    """How English says "du": some bread; not any bread; every day just "bread"."""
    if clause.habit:
        return "all"
    return "any" if clause.negative or clause.question else "some"


def in_english(clause: Clause) -> str:
    """The clause as an English sentence."""
    loadEn()
    verb, *particle = clause.verb.english.split()
    # pyrealb asks "Has he a dog?": "need" stands in for "have" until the sentence is made.
    have = clause.question and verb == "have" and not clause.progressive
    tense = {"present": "p", "past": "ps", "future": "f"}[clause.tense]
    if clause.order:
        words = [Q(verb)]
    elif clause.modal == "want":
        words = [V("want").t(tense), V(verb).t("b-to")]
    else:
        words = [V("need" if have else verb).t(tense)]
    words += [Q(word) for word in particle]
    if clause.often:
        words.insert(0, Q(clause.often.english))
    thing = clause.object
    if isinstance(thing, Thing) and thing.determiner == "some":
        thing = replace(thing, determiner=some_or_any(clause))
    words += [english_thing(thing)] if thing else []
    if isinstance(clause.complement, Where):
        words.append(english_where(clause.complement))
    elif clause.complement:
        words.append(Q(clause.complement.english))
    words += [Q(clause.when.english)] if clause.when else []
    if clause.order:
        negative = "Don't" if clause.negative else ""
        start = {"please": "Please", "together": "Let's"}.get(clause.order, negative)
        text = f"{start} {realize(NP(*words))}.".strip()
        return text[0].upper() + text[1:]
    types = {
        "neg": clause.negative,
        "int": "yon" if clause.question else False,
        "prog": clause.progressive,
        "mod": {"can": "poss", "must": "obli"}.get(clause.modal, False),
    }
    text = realize(S(english_thing(clause.subject, "nom"), VP(*words)).typ(types))
    text = text.replace(" need", " have") if have else text
    if clause.asks:
        text = f"{clause.asks.english.capitalize()} {text[0].lower()}{text[1:]}"
    return contract(text)


# ---------------------------------------------------------------- French


def mend_french() -> None:
    """Complete pyrealb's French lexicon, and correct it."""
    loadFr()
    for name in NAMES:
        addToLexicon({name.french: {"N": {"g": name.gender, "tab": "nI"}}})
    addToLexicon({"pull": {"N": {"g": "m", "tab": "n3"}}})
    getLexicon("fr")["sortir"]["V"]["aux"] = "êt"
    for verb in ("partir", "sortir"):  # the library says "ils sont partie"
        participle = getRules("fr")["conjugation"][getLexicon("fr")[verb]["V"]["tab"]]["t"]["pp"]
        participle[2] = participle[0] + "s"


def finish_french(text: str) -> str:
    """French spelling and spacing: sœur, vas-tu ?"""
    text = re.sub(r"\s*([!?:;])", r" \1", re.sub(r"oe(?=[iu])", "œ", text))
    return unicodedata.normalize("NFC", text)


def french_thing(thing: Thing | Person, case: str = "acc", denied: bool = False) -> NP | PP | Pro:
    """As in English. `denied`: what a negative verb turns from "un", "du" and "des" into "de"."""
    if thing is IT:
        return Pro("ce")
    if isinstance(thing, Person):
        return Pro("moi").pe(thing.person).n(thing.number).g(thing.gender).c(case)
    determiner, adjective, number = thing.determiner, thing.adjective, "p" if thing.plural else "s"
    before = adjective is not None and not adjective.kinds.isdisjoint(("before", "front"))
    words = [N(thing.noun.french.replace("œ", "oe")).g(thing.gender)]
    if adjective:
        words.insert(0 if before else 1, A(adjective.french).pos("pre" if before else "post"))
    if thing.apposition:
        words.append(N(thing.apposition.french))
    if isinstance(determiner, Person):
        my = "notre" if determiner.number == "p" else "mon"
        words.insert(0, D(my).pe(determiner.person))
    elif isinstance(determiner, Thing):
        words = [D("le"), *words, PP(P("de"), french_thing(determiner))]
    elif isinstance(determiner, int):
        words.insert(0, NO(determiner).nat())
    elif denied and determiner in ("a", "some"):
        return PP(P("de"), NP(*words).n(number))
    elif determiner == "some" and not thing.plural:
        return PP(P("de"), NP(D("le"), *words))
    elif determiner == "some" and before:
        words.insert(0, D("de"))  # de petits chiens, not "des"
    elif determiner != "none":
        words.insert(0, D({"a": "un", "some": "un", "this": "ce"}.get(determiner, "le")))
    return NP(*words).n(number)


def french_where(where: Where) -> PP:
    """To the market: au marché."""
    return PP(*(P(word) for word in where.french.split()), french_thing(where.thing))


def in_french(clause: Clause) -> str:
    """The clause as a French sentence."""
    loadFr()
    never = clause.often is not None and clause.often.french == "jamais"
    tense = {"present": "p", "past": "pc", "future": "f"}[clause.tense]
    verb = V(clause.verb.french).t("ip" if clause.order else tense)
    words = [verb]
    words += [Q(clause.often.french)] if clause.often and not never else []
    if clause.order:
        verb.pe(clause.subject.person).n(clause.subject.number)
    if clause.order and isinstance(clause.object, Person) and not clause.negative:
        who = clause.object  # help him: aide-le
        pronoun = Pro("moi").pe(who.person).n(who.number).g(who.gender)
        words = [verb.lier(), pronoun.tn("") if who is I else pronoun.c("acc")]
    elif clause.object:
        denied = (clause.negative or never) and clause.verb is not BE
        words.append(french_thing(clause.object, denied=denied))
        if isinstance(clause.object, Person):
            verb.cod = words[-1]  # so that the participle agrees: je l'ai vue
    if isinstance(clause.complement, Where):
        words.append(french_where(clause.complement))
    elif clause.complement:
        words.append((A if clause.verb is BE else Q)(clause.complement.french))
    words += [Q(clause.when.french)] if clause.when else []
    types = {
        "neg": "jamais" if never else clause.negative,
        "int": "yon" if clause.question else False,
        "mod": {"can": "poss", "must": "obli", "want": "will"}.get(clause.modal, False),
        "refl": clause.reflexive,
    }
    if clause.order:
        text = realize(S(VP(*words)).typ(types)).rstrip(".")
        return finish_french(text + (", s'il te plaît!" if clause.order == "please" else "!"))
    sentence = S(french_thing(clause.subject, "nom"), VP(*words)).typ(types)
    if clause.asks:  # "que" is a conjunction to the library, so that it elides
        que = clause.asks.french == "que"
        sentence = S((C if que else Q)(clause.asks.french), sentence)
    return finish_french(realize(sentence))


# ---------------------------------------------------------------- both


def phrase(part: Thing | Where, denied: bool = False) -> tuple[str, str]:
    """A thing or a place outside a clause, in English and in French."""
    place = isinstance(part, Where)
    loadEn()
    english = realize(english_where(part) if place else english_thing(part))
    loadFr()
    french = realize(french_where(part) if place else french_thing(part, denied=denied))
    return english, finish_french(french)


def spelled(number: int) -> tuple[str, str]:
    """A number in words."""
    loadEn()
    english = realize(NP(NO(number).nat()))
    loadFr()
    return english, realize(NP(NO(number).nat()))


def say(clause: Clause) -> Pair | None:
    """The clause in both languages, unless nobody would say it."""
    if odd(clause):
        return None
    return Pair(in_english(clause), in_french(clause), clause.beginner)


def odd(clause: Clause) -> bool:
    """Grammatical, but seldom said, or in need of word forms that occur nowhere else."""
    subject, thing, tense = clause.subject, clause.object, clause.tense
    verb, notes = clause.verb.english, clause.verb.kinds
    who = subject.noun.kinds if isinstance(subject, Thing) else set()
    what = thing.noun.kinds if isinstance(thing, Thing) else set()
    how = thing.adjective.english if isinstance(thing, Thing) and thing.adjective else ""
    many = isinstance(thing, Thing) and thing.plural and "pair" not in what
    negative = clause.negative and tense != "past" and not clause.modal
    return any(
        (
            thing == subject,
            "grown" in notes and "young" in who,
            "one" in notes and many,
            "lasting" in notes and (tense != "present" or clause.modal),
            "unwilled" in notes and clause.modal,
            "done" in notes and clause.now,
            "daily" not in notes and clause.habit,
            "future" not in notes and tense == "future",
            "ask" not in notes and clause.question and clause.now,
            clause.question and tense == "future" and subject is not YOU,
            negative and starts_with_vowel(clause.verb) and not isinstance(thing, Person),
            subject is IT and what & {"pair", "mass"},
            verb == "love" and ("person" in who or "person" in what),
            verb in ("want", "buy", "choose", "make", "eat", "drink", "draw", "break")
            and how in ("dirty", "broken", "bad", "empty", "sad", "heavy"),
        )
    )


def starts_with_vowel(word: Word) -> bool:
    """Whether "ne" and "de" elide before it; être, avoir, aimer and eau are too common to count."""
    return word.french[0] in "aeiouéêœh" and word.french not in ("être", "avoir", "aimer", "eau")


# ---------------------------------------------------------------- words that go together


class Dice:
    """Chance that is the same on every machine and in every version of Python."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        """True so often."""
        return self.random() < probability

    def choose(self, items: Sequence):
        """One of the items."""
        return items[int(self.random() * len(items))]

    def number(self) -> int:
        """From two to ten."""
        return 2 + int(self.random() * 9)


def fits(noun: Word, kinds: Iterable[str]) -> bool:
    """Whether the noun is of one of the kinds; a kind may also be the noun itself."""
    return not (noun.kinds | {noun.english}).isdisjoint(kinds)


@cache
def nouns(*kinds: str) -> list[Word]:
    """The nouns of these kinds."""
    return [noun for noun in NOUNS if fits(noun, kinds)]


@cache
def adjectives(noun: Word, *places: str) -> list[Word]:
    """The adjectives that describe the noun from one of these places."""
    return [a for a in ADJECTIVES if fits(noun, a.kinds) and not a.kinds.isdisjoint(places)]


TAKES_PEOPLE = [verb for verb in VERBS if "someone" in verb.kinds]
ORDERS = [verb for verb in VERBS if "order" in verb.kinds and nouns(*verb.kinds)]
FEELINGS = [adjective for adjective in ADJECTIVES if "someone" in adjective.kinds]
BESIDE, AFTER_BE = ("before", "front", "after"), ("before", "after", "said")
OWNED = nouns("pet", "clothes", "vehicle", "small", "bag", "machine", "dish", "paper", "house")
NEVER = Word("never", "jamais")
OFTEN = [Word("often", "souvent"), Word("always", "toujours"), Word("sometimes", "parfois")]
EARLY = [Word(*pair, frozenset({"habit"})) for pair in (("early", "tôt"), ("late", "tard"))]
WHAT, WHERE = Word("what", "que"), Word("where", "où")
WHEN, WHY = Word("when", "quand"), Word("why", "pourquoi")
AGES = (5, 6, 7, 8, 9, 10, 12, 20, 30)
SOON = ("now", "today", "tomorrow")
HOMES = nouns("house", "garden")
STAYS = ("house", "hotel", "hospital", "school", "library", "office", "restaurant")
PLACES = [  # a preposition, what may be there, and the places
    ("on", "sur", ("dish", "paper", "small", "food", "meal", "lamp", "flower"), ("table",)),
    ("on", "sur", ("cat", "clothes", "paper", "phone", "bag", "gift"), ("chair", "bed")),
    ("under", "sous", ("dog", "cat", "rabbit", "mouse", "small", "bag"), ("table", "chair", "bed")),
    ("in", "dans", ("dog", "cat", "rabbit", "bird", "horse", "tree"), ("garden",)),
    ("in", "dans", ("small", "dish", "flower", "paper"), ("indoors", "garden", "box", "bag")),
    ("behind", "derrière", ("dog", "cat", "tree", "bike", "bird"), ("door", "house", "church")),
    ("near", "près de", ("restaurant", "hotel", "park", "museum"), ("station", "school", "house")),
]


def someone(dice: Dice) -> Thing:
    """Emma, my sister, my friend Emma, the teacher."""
    die = dice.random()
    if die < 0.4:
        return Thing(dice.choose(NAMES), "none")
    if die < 0.7:
        return Thing(dice.choose(nouns("close")), dice.choose(PERSONS))
    if die < 0.8:
        return Thing(NOUN["friend"], dice.choose(PERSONS), apposition=dice.choose(NAMES))
    return Thing(dice.choose(nouns("person")))


def anyone(dice: Dice) -> Thing | Person:
    """A subject, most often a pronoun."""
    return dice.choose(PERSONS) if dice.chance(0.7) else someone(dice)


def asked(dice: Dice) -> Thing | Person:
    """Who a question is about: mostly you."""
    return dice.choose((YOU, YOU, YOU, YOU, HE, SHE, HE, SHE, THEY, someone(dice)))


def other(dice: Dice, subject: Thing | Person) -> Person:
    """An object pronoun: no "I see me", no "we see me"."""
    same = (I, WE) if subject in (I, WE) else (YOU,) if subject is YOU else ()
    return dice.choose([person for person in PERSONS if person not in same])


def owner(dice: Dice, subject: Thing | Person) -> Person:
    """Mostly the subject: he's looking for his key."""
    if isinstance(subject, Thing):
        return SHE if subject.gender == "f" else HE
    return dice.choose(PERSONS) if subject is IT or dice.chance(0.3) else subject


def countable(noun: Word) -> bool:
    """Whether there may be one or several of it."""
    return noun.kinds.isdisjoint(("mass", "single", "pair"))


def some(noun: Word, plural: bool = False) -> Thing:
    """A dog, some dogs, some water."""
    plural = plural or "pair" in noun.kinds
    return Thing(noun, "some" if plural or "mass" in noun.kinds else "a", plural)


def known(dice: Dice, noun: Word, subject: Thing | Person = IT) -> Thing:
    """The dog, this dog, my dog, my mother."""
    if "family" in noun.kinds:
        return Thing(noun, owner(dice, subject))
    choices = ["the", "the", "the" if "mass" in noun.kinds else "this"]
    choices += [owner(dice, subject)] * 2 if noun in OWNED else []
    plural = "pair" in noun.kinds or (countable(noun) and dice.chance(0.25))
    return Thing(noun, dice.choose(choices), plural)


def some_or_the(dice: Dice, noun: Word) -> Thing:
    """A dog, the dog, some dogs, the dogs, some water, the water."""
    thing = some(noun, countable(noun) and dice.chance(0.25))
    definite = "close" not in noun.kinds and dice.chance(0.4)
    return replace(thing, determiner="the") if definite else thing


def object_of(dice: Dice, verb: Word, subject: Thing | Person, definite: bool = False) -> Thing:
    """What the verb is done to; `definite`: the, this or somebody's."""
    things = nouns(*verb.kinds)
    if "someone" in verb.kinds and (not things or dice.chance(0.5)):
        return someone(dice)
    noun = dice.choose(things)
    if "close" in noun.kinds:
        return some(noun, dice.chance(0.4))
    if definite or "known" in verb.kinds or (noun in OWNED and dice.chance(0.4)):
        return known(dice, noun, subject)
    return some_or_the(dice, noun)


def when(dice: Dice, tense: str) -> Word:
    """A time that goes with the tense; "habit" is one of them."""
    return dice.choose([time for time in TIMES if tense in time.kinds])


def o_clock(dice: Dice) -> Word:
    """At eight o'clock."""
    english, french = spelled(dice.number())
    return Word(f"at {english} o'clock", f"à {french} heures", frozenset({"habit"}))


def at(dice: Dice, english: str, french: str, *kinds: str) -> Where:
    """A place of these kinds, after the preposition."""
    return Where(english, french, Thing(dice.choose(nouns(*kinds))))


def move(dice: Dice, tense: str, subject: Thing | Person | None = None, **rest) -> Clause:
    """Emma is going to the market; they left yesterday."""
    verb, place = dice.choose(MOVES), None
    if "to" in verb.kinds:
        place = at(dice, "to", "à", "town")
    elif "from" in verb.kinds:
        place = at(dice, "from", "de", "town")
    elif "at" in verb.kinds and dice.chance(0.6):
        place = at(dice, "at", "à", *(STAYS if verb.english == "stay" else ("town",)))
    time = when(dice, tense) if dice.chance(0.3) else None
    return Clause(subject or anyone(dice), verb, None, place, tense, when=time, **rest)


def event(dice: Dice, tense: str, subject: Thing | Person | None = None, **rest) -> Clause:
    """Somebody does something: what most sentences below start from."""
    subject, verb, place = subject or anyone(dice), dice.choose(VERBS), None
    time = when(dice, tense) if dice.chance(0.2) else None
    if dice.chance(0.8):
        thing = object_of(dice, verb, subject, definite=rest.get("negative", False))
        time = None if "state" in verb.kinds and tense == "present" else time
        return Clause(subject, verb, thing, None, tense, when=time, **rest)
    verb = dice.choose(ACTIONS)
    if verb.english != "swim" and dice.chance(0.3):
        outside = verb.english in ("walk", "run")
        place = at(dice, "in", "dans", *(("park", "garden") if outside else ("area",)))
    return Clause(subject, verb, None, place, tense, when=time, **rest)


# ---------------------------------------------------------------- the phenomena
#
# Each function throws the dice for one sentence of its kind; None means that the throw was odd.


def adjective_order(dice: Dice) -> Pair | None:
    """A red car, une voiture rouge; a small dog, un petit chien."""
    words, beginner = NOUNS, dice.chance(0.4)  # a good part in the shortest sentences
    if beginner:
        words = [noun for noun in NOUNS if noun.beginner and "close" not in noun.kinds]
    noun = dice.choose([noun for noun in words if adjectives(noun, *BESIDE)])
    choices = [a for a in adjectives(noun, *BESIDE) if a.beginner or not beginner]
    if not choices:
        return None
    adjective = dice.choose(choices)
    if dice.chance(0.2):
        return say(Clause(IT, BE, replace(some(noun), adjective=adjective)))
    verbs = [verb for verb in VERBS if fits(noun, verb.kinds)]
    if not verbs:
        return None
    thing = replace(some_or_the(dice, noun), adjective=adjective)
    subject = dice.choose(PERSONS) if beginner else anyone(dice)
    tense = dice.choose(("present", "past"))
    return say(Clause(subject, dice.choose(verbs), thing, tense=tense))


def adjective_agreement(dice: Dice) -> Pair | None:
    """She's tired, elle est fatiguée; the doors are closed, les portes sont fermées."""
    subject, choices = anyone(dice), FEELINGS
    if dice.chance(0.5):
        noun = dice.choose([noun for noun in NOUNS if adjectives(noun, *AFTER_BE)])
        subject, choices = known(dice, noun), adjectives(noun, *AFTER_BE)
    return say(Clause(subject, BE, None, dice.choose(choices), negative=dice.chance(0.2)))


def articles(dice: Dice) -> Pair | None:
    """I like apples, j'aime les pommes; some water, de l'eau; this orange, cette orange."""
    if dice.chance(0.4):
        liked = nouns("animal", "food", "meal", "drink", "plant", "book", "movie", "song", "poem")
        noun = dice.choose([noun for noun in liked if "single" not in noun.kinds])
        thing = Thing(noun, "all", plural="mass" not in noun.kinds)
        return say(Clause(anyone(dice), LIKE, thing, negative=dice.chance(0.3)))
    verb = VERB[dice.choose(("want", "eat", "drink", "buy", "see", "take", "make"))]
    noun = dice.choose(nouns(*verb.kinds))
    thing = some_or_the(dice, noun)
    if "mass" not in noun.kinds and dice.chance(0.3):
        thing = replace(thing, determiner="this")
    return say(Clause(anyone(dice), verb, thing, tense=dice.choose(("present", "past"))))


def contraction(dice: Dice) -> Pair | None:
    """To the market, au marché; from the office, du bureau; to the children, aux enfants."""
    tense = dice.choose(("present", "present", "past", "future"))
    if dice.chance(0.6):
        clause = move(dice, tense)
        return say(clause) if clause.complement else None
    to = Where("to", "à", Thing(dice.choose(nouns("person")), plural=dice.chance(0.3)))
    if dice.chance(0.4):
        return say(Clause(anyone(dice), VERB["talk"], None, to, tense))
    noun = dice.choose(nouns("small", "paper", "fruit", "flower"))
    thing = dice.choose((some(noun), Thing(noun)))
    return say(Clause(anyone(dice), dice.choose((GIVE, SHOW)), thing, to, tense))


def genitive(dice: Dice) -> Pair | None:
    """Emma's dog, le chien d'Emma; the neighbor's house, la maison du voisin."""
    noun = dice.choose(OWNED)
    thing = Thing(noun, someone(dice), "pair" in noun.kinds)
    if dice.chance(0.4):
        return say(Clause(IT, BE, thing))
    if dice.chance(0.5):
        return say(Clause(thing, BE, complement=dice.choose(adjectives(noun, *AFTER_BE))))
    verb = dice.choose([verb for verb in VERBS if fits(noun, verb.kinds)])
    return say(Clause(dice.choose(PERSONS), verb, thing, tense="past"))


def possessives(dice: Dice) -> Pair | None:
    """His sister and her sister, sa sœur; my friend Emma, mon amie Emma."""
    noun = dice.choose(OWNED + nouns("close") + nouns("close"))
    plural = "pair" in noun.kinds or (countable(noun) and dice.chance(0.2))
    thing = Thing(noun, dice.choose(PERSONS), plural)
    if noun.english == "friend" and dice.chance(0.7):
        thing = replace(thing, plural=False, apposition=dice.choose(NAMES))
    if dice.chance(0.4):
        thing = replace(thing, plural="pair" in noun.kinds)
        return say(Clause(IT, BE, thing, negative=dice.chance(0.3)))
    tense, person = dice.choose(("present", "past")), "close" in noun.kinds
    if person and dice.chance(0.5):
        return say(dice.choose((event, move))(dice, tense, thing))
    verbs = [verb for verb in VERBS if fits(noun, verb.kinds)]
    verb = dice.choose(TAKES_PEOPLE if person else verbs)
    return say(Clause(dice.choose(PERSONS), verb, thing, tense=tense))


def object_pronouns(dice: Dice) -> Pair | None:
    """I see him, je le vois; she loves me, elle m'aime; we saw her, nous l'avons vue."""
    tense = dice.choose(("present", "present", "past", "past", "future"))
    subject, verb = anyone(dice), dice.choose(TAKES_PEOPLE)
    if starts_with_vowel(verb) and (tense == "future" or verb.english == "listen to"):
        return None
    state = "state" in verb.kinds and tense == "present"
    time = when(dice, tense) if not state and dice.chance(0.2) else None
    negative = dice.chance(0.25)
    return say(Clause(subject, verb, other(dice, subject), None, tense, negative, when=time))


def negation(dice: Dice) -> Pair | None:
    """I don't see the dog, je ne vois pas le chien; no dog, pas de chien; never, jamais."""
    die = dice.random()
    if die < 0.2:
        return say(replace(event(dice, "present"), often=NEVER, when=None))
    if die < 0.6:
        verb = VERB[dice.choose(("have", "want", "eat", "drink", "buy"))]
        noun = dice.choose(nouns(*verb.kinds))
        if starts_with_vowel(noun):
            return None
        tense = dice.choose(("present", "past"))
        return say(Clause(anyone(dice), verb, some(noun, "food" in noun.kinds), None, tense, True))
    tense = dice.choose(("present", "present", "past", "future"))
    return say(dice.choose((event, event, move))(dice, tense, negative=True))


def questions(dice: Dice) -> Pair | None:
    """Do you see the dog? Vois-tu le chien ? Where are you going? Où vas-tu ?"""
    subject, die, tense = asked(dice), dice.random(), dice.choose(("present", "past"))
    ask = Clause(subject, BE, tense=tense, question=True)
    if die < 0.15:
        return where_is(known(dice, dice.choose(OWNED)))
    if die < 0.2:
        noun = dice.choose(nouns("clothes", "vehicle"))
        return what_color(Thing(noun, dice.choose(PERSONS), "pair" in noun.kinds))
    if die < 0.3:
        return say(replace(ask, complement=dice.choose(FEELINGS), tense="present"))
    if die < 0.45:
        verb = dice.choose([verb for verb in VERBS if nouns(*verb.kinds)])
        if isinstance(subject, Thing) or starts_with_vowel(verb):
            return None
        return say(replace(ask, verb=verb, asks=WHAT))
    if die < 0.5:
        return say(replace(ask, verb=dice.choose(ACTIONS), asks=WHY))
    if die < 0.55:
        going = move(dice, dice.choose(("past", "future")), subject, question=True, asks=WHEN)
        return say(replace(going, when=None))
    if die < 0.65:
        verb = VERB[dice.choose(("go", "go", "work", "sleep"))]
        time = when(dice, tense) if dice.chance(0.5) else None
        return say(replace(ask, verb=verb, asks=WHERE, when=time))
    return say(event(dice, tense, subject, question=True))


def where_is(thing: Thing) -> Pair:
    """Where are the keys?"""
    english, french = phrase(thing)
    be, être = ("are", "sont") if thing.plural else ("is", "est")
    return Pair(f"Where {be} {english}?", f"Où {être} {french} ?", thing.beginner)


def what_color(thing: Thing) -> Pair:
    """What color is his car?"""
    english, french, _ = where_is(thing)
    return Pair(english.replace("Where", "What color"), french.replace("Où", "De quelle couleur"))


def present(dice: Dice) -> Pair | None:
    """I'm eating an apple, je mange une pomme; he often drinks tea, il boit souvent du thé."""
    die, clause = dice.random(), dice.choose((event, event, event, move))(dice, "present")
    if die < 0.4:
        return say(clause)
    if die < 0.7:
        return say(replace(clause, often=dice.choose(OFTEN), when=None))
    return say(replace(clause, when=when(dice, "habit")))


def past_with_avoir(dice: Dice) -> Pair | None:
    """I found the key, j'ai trouvé la clé."""
    return say(event(dice, "past", negative=dice.chance(0.1)))


def past_with_être(dice: Dice) -> Pair | None:
    """She left, elle est partie; they went to the market, ils sont allés au marché."""
    return say(move(dice, "past", negative=dice.chance(0.2)))


def future(dice: Dice) -> Pair | None:
    """I'll buy some bread, j'achèterai du pain."""
    return say(dice.choose((event, event, move))(dice, "future"))


def there_is(dice: Dice) -> Pair | None:
    """There's a dog in the garden, il y a un chien dans le jardin."""
    on, sur, things, places = dice.choose(PLACES)
    noun, kind = dice.choose(nouns(*things)), dice.choose(("yes", "yes", "yes", "no", "ask"))
    thing = some(noun, countable(noun) and dice.chance(0.4))
    if thing.plural and kind == "yes" and dice.chance(0.5):
        thing = replace(thing, determiner=dice.number())
    if kind == "no" and starts_with_vowel(noun):
        return None
    english, french = phrase(thing, denied=kind == "no")
    english = english if kind == "yes" else re.sub(r"^some\b", "any", english)
    place, lieu = phrase(at(dice, on, sur, *places))
    be = "are" if thing.plural else "is"
    return {
        "yes": Pair(contract(f"There {be} {english} {place}."), f"Il y a {french} {lieu}."),
        "no": Pair(f"There {be}n't {english} {place}.", f"Il n'y a pas {french} {lieu}."),
        "ask": Pair(f"{be.capitalize()} there {english} {place}?", f"Y a-t-il {french} {lieu} ?"),
    }[kind]


def place_and_time(dice: Dice) -> Pair | None:
    """The book is on the table, le livre est sur la table; tomorrow, demain."""
    die = dice.random()
    if die < 0.4:
        on, sur, things, places = dice.choose(PLACES[:5])
        thing = known(dice, dice.choose(nouns(*things)))
        return say(Clause(thing, BE, complement=at(dice, on, sur, *places)))
    if die < 0.6:
        place = dice.choose((at(dice, "at", "à", "town"), at(dice, "in", "dans", "area")))
        return say(Clause(anyone(dice), BE, None, place, negative=dice.chance(0.2)))
    tense = dice.choose(("past", "future"))
    return say(replace(event(dice, tense), when=when(dice, tense)))


def numbers(dice: Dice) -> Pair | None:
    """Three cats, trois chats; at eight o'clock, à huit heures."""
    if dice.chance(0.3):
        clause = dice.choose((event, move, move))(dice, dice.choose(("past", "future")))
        odd_hour = clause.verb.english == "stay"
        return None if odd_hour else say(replace(clause, when=o_clock(dice)))
    verb = VERB[dice.choose(("have", "have", "want", "see", "buy", "eat", "find", "sell", "write"))]
    noun = dice.choose([n for n in nouns(*verb.kinds) if countable(n) and n not in HOMES])
    few = fits(noun, ("close", "pet", "machine", "vehicle")) and verb.english != "see"
    number = dice.choose((2, 3, 4)) if few else dice.number()
    adjective = dice.choose([*adjectives(noun, *BESIDE), None, None, None, None])
    thing = Thing(noun, number, True, adjective)
    tense = "present" if "lasting" in verb.kinds else "past"
    return say(Clause(anyone(dice), verb, thing, tense=tense))


def states(dice: Dice) -> Pair | None:
    """I'm hungry, j'ai faim; she's ten years old, elle a dix ans."""
    subject, state = anyone(dice), dice.choose(STATES)
    if dice.chance(0.5):
        english, french = spelled(dice.choose(AGES))
        state = Word(f"{english} years old", f"{french} ans", beginner=False)
        if isinstance(subject, Thing):
            subject = Thing(dice.choose(nouns("sibling", "friend")), dice.choose(PERSONS))
    if dice.chance(0.2):
        subject = subject if isinstance(subject, Thing) else asked(dice)
        return say(Clause(subject, BE_IN_A_STATE, None, state, question=True))
    return say(Clause(subject, BE_IN_A_STATE, None, state, negative=dice.chance(0.2)))


def imperatives(dice: Dice) -> Pair | None:
    """Close the door, ferme la porte ! Help me, aide-moi ! Let's eat, mangeons !"""
    die, order = dice.random(), dice.choose(("plain", "plain", "plain", "please", "together"))
    doer, negative = (WE if order == "together" else YOU), order == "plain" and dice.chance(0.3)
    if die < 0.4:
        verb = VERB[dice.choose(("help", "listen to", "look at", "wait for"))]
        whom = dice.choose((I, HE, SHE, WE, THEY))
        time = dice.choose((None, None, *(time for time in TIMES if time.english in SOON)))
        clause = Clause(doer, verb, whom, order=order, when=time)
        return None if doer is WE else say(clause)
    if die < 0.55:
        town = at(dice, "to", "à", "town")
        return say(Clause(doer, VERB["go"], None, town, negative=negative, order=order))
    verb = dice.choose(ORDERS)
    thing = some_or_the(dice, dice.choose(nouns(*verb.kinds)))
    if thing.noun.kinds.isdisjoint(("food", "clothes", "dish", "opening", "mass")):
        thing = replace(thing, plural=False, determiner="the")
    if negative or verb.english not in ("eat", "drink", "buy"):
        thing = replace(thing, determiner=doer if thing.noun in OWNED else "the")
    return say(Clause(doer, verb, thing, negative=negative, order=order))


def reflexives(dice: Dice) -> Pair | None:
    """I get up early, je me lève tôt; she woke up, elle s'est réveillée."""
    clause = Clause(anyone(dice), dice.choose(REFLEXIVES), reflexive=True)
    if dice.chance(0.2):
        modal = dice.choose(("want", "must"))
        return say(replace(clause, modal=modal, negative=modal == "want" and dice.chance(0.2)))
    tense = dice.choose(("present", "past"))
    time = when(dice, "habit" if tense == "present" else tense)
    if "daily" in clause.verb.kinds:
        time = dice.choose((*EARLY, o_clock(dice)))
    time = time if dice.chance(0.7) else None
    return say(replace(clause, tense=tense, when=time, negative=dice.chance(0.2)))


def infinitives(dice: Dice) -> Pair | None:
    """I want to see her, je veux la voir; can you swim? Peux-tu nager ?"""
    question, modal = dice.chance(0.25), dice.choose(("want", "can", "must"))
    negative = not question and modal != "must" and dice.chance(0.3)
    if question and modal == "must":
        return None
    subject = asked(dice) if question else anyone(dice)
    rest = {"negative": negative, "question": question, "modal": modal}
    if dice.chance(0.4):
        return say(Clause(subject, dice.choose(TAKES_PEOPLE), other(dice, subject), **rest))
    clause = dice.choose((event, event, event, move))(dice, "present", subject, **rest)
    return say(replace(clause, when=None))


# How many sentences of each to draw. Those with words too rare to be learnt are dropped again.
PHENOMENA: dict[Callable[[Dice], Pair | None], int] = {
    adjective_order: 1100,
    adjective_agreement: 700,
    articles: 500,
    contraction: 450,
    genitive: 350,
    possessives: 400,
    object_pronouns: 900,
    negation: 550,
    questions: 600,
    present: 500,
    past_with_avoir: 450,
    past_with_être: 350,
    future: 450,
    there_is: 300,
    place_and_time: 350,
    numbers: 350,
    states: 300,
    imperatives: 400,
    reflexives: 350,
    infinitives: 450,
}


# ---------------------------------------------------------------- choosing sentences


class Sentence(NamedTuple):
    """A line of the corpus, and the function that made it."""

    english: str
    french: str
    phenomenon: str

    def words(self) -> set[tuple[str, str]]:
        """Its tokens, each with its language."""
        sides = (("English", self.english), ("French", self.french))
        return {(language, token) for language, text in sides for token in tokens(text)}


def tokens(text: str) -> list[str]:
    """Lower-case words and marks, split as the package splits them."""
    return re.sub(r"\s*([,.!?;:])", r" \1", text.lower()).split()


def letters(english: str) -> str:
    """What two sentences share that differ in punctuation only."""
    return re.sub(r"[^a-z' ]", "", english.lower())


def draw(make: Callable[[Dice], Pair | None], dice: Dice, taken: dict[str, str]) -> Sentence | None:
    """A sentence not `taken` before, or None if this throw gave none."""
    pair = make(dice)
    if pair is None or (len(pair.english) < SHORT and not pair.beginner):
        return None
    if max(len(tokens(pair.english)), len(tokens(pair.french))) > MAX_TOKENS:
        return None
    key = letters(pair.english)
    if key in taken:
        if taken[key] != pair.french:
            raise ValueError(f"{pair.english!r}: {pair.french!r} or {taken[key]!r}?")
        return None
    taken[key] = pair.french
    return Sentence(pair.english, pair.french, make.__name__)


def draw_many(make, dice, taken, wanted: int, known: set | None = None) -> list[Sentence]:
    """As many as wanted, or as 40 throws for each will give; `known` limits their words."""
    drawn: list[Sentence] = []
    short = 0
    for _ in range(40 * wanted):
        sentence = draw(make, dice, taken)
        if sentence is None or (known is not None and not sentence.words() <= known):
            continue
        short += len(sentence.english) < SHORT
        if len(sentence.english) >= SHORT or short <= MAX_SHORT:
            drawn.append(sentence)
        if len(drawn) == wanted:
            break
    return drawn


def drop_rare(sentences: list[Sentence]) -> list[Sentence]:
    """The idioms, and the sentences all of whose words occur in MIN_COUNT of those kept."""
    while True:
        count = Counter(word for sentence in sentences for word in sentence.words())
        rare = {word for word in count if count[word] < MIN_COUNT}
        kept = [s for s in sentences if s.phenomenon == "idioms" or rare.isdisjoint(s.words())]
        if len(kept) == len(sentences):
            return kept
        sentences = kept


def settle_beginning(sentences: list[Sentence]) -> list[Sentence]:
    """Drop from the BEGINNING those with a word that it has only once, until none is left.

    A reader who takes the first lines alone, as the book does, then meets each word again.
    """
    while True:
        beginning = in_order(sentences)[:BEGINNING]
        count = Counter(word for sentence in beginning for word in sentence.words())
        once = {s for s in beginning if any(count[word] == 1 for word in s.words())}
        if not once:
            return sentences
        sentences = [sentence for sentence in sentences if sentence not in once]


def in_order(sentences: Iterable[Sentence]) -> list[Sentence]:
    """The shortest English first."""
    return sorted(sentences, key=lambda sentence: (len(sentence.english), sentence.english))


def make_corpus() -> tuple[list[Sentence], list[Sentence]]:
    """The corpus, and the sentences held out: new ones, of words that the corpus has."""
    mend_french()
    dice = Dice(SEED)
    lines = (WORDS / "idioms.tsv").read_text(encoding="utf-8").splitlines()
    corpus = [Sentence(*line.split("\t"), "idioms") for line in lines]
    taken = {letters(idiom.english): idiom.french for idiom in corpus}
    for make, wanted in PHENOMENA.items():
        corpus += draw_many(make, dice, taken, wanted)
    corpus = drop_rare(settle_beginning(drop_rare(corpus)))
    known = set().union(*(sentence.words() for sentence in corpus))
    held_out = [s for make in PHENOMENA for s in draw_many(make, dice, taken, HELD_OUT, known)]
    return in_order(corpus), in_order(held_out)


def table(rows: Iterable[Sequence[str]]) -> str:
    """Tab-separated lines."""
    return "".join("\t".join(row) + "\n" for row in rows)


def write(folder: Path, corpus: list[Sentence], held_out: list[Sentence]) -> None:
    """Both files; the corpus does not name the phenomena, so as to have the book's two columns."""
    for name, rows in (
        ("english-french.tsv", [sentence[:2] for sentence in corpus]),
        ("held-out.tsv", held_out),
    ):
        (folder / name).write_text(table(rows), encoding="utf-8", newline="\n")


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", action="store_true", help="say how many of each phenomenon")
    parser.add_argument("--to", type=Path, default=CORPUS, help="the folder to write to")
    options = parser.parse_args()
    corpus, held_out = make_corpus()
    write(options.to, corpus, held_out)
    if options.counts:
        count, unseen = (Counter(s.phenomenon for s in part) for part in (corpus, held_out))
        for phenomenon in ["idioms", *(make.__name__ for make in PHENOMENA)]:
            print(f"{phenomenon:20}{count[phenomenon]:6}{unseen[phenomenon]:6}")
        vocabulary = set().union(*(sentence.words() for sentence in corpus))
        print(f"{len(corpus)} sentences, {len(held_out)} held out;", end=" ")
        print(dict(sorted(Counter(language for language, _ in vocabulary).items())))


if __name__ == "__main__":
    main()
