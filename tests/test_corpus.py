"""The bundled corpus: its form, its French, and that its generator makes exactly this file."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

import d2l_mini as d2l

ROOT = Path(__file__).parent.parent
CORPUS = (ROOT / "d2l_mini" / "corpus" / "english-french.tsv").read_bytes().decode()
HELD_OUT = (ROOT / "d2l_mini" / "corpus" / "held-out.tsv").read_bytes().decode()
PAIRS = [tuple(line.split("\t")) for line in CORPUS.splitlines()]
UNSEEN = [tuple(line.split("\t")) for line in HELD_OUT.splitlines()]
FRENCH = [french for _, french, *_ in PAIRS + UNSEEN]
SIDES = pytest.mark.parametrize("side", [0, 1], ids=["English", "French"])


def tokens(text):
    return d2l.preprocess_nmt(text).split()


def needed(problem):
    """Skip, but in CI, where everything has to be there, fail."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(problem)


def count(side, pairs=PAIRS):
    return Counter(token for pair in pairs for token in tokens(pair[side]))


# ---- form


@pytest.mark.parametrize(("text", "columns"), [(CORPUS, 2), (HELD_OUT, 3)])
def test_the_files_are_well_formed(text, columns):
    assert text == unicodedata.normalize("NFC", text)
    assert text.endswith("\n")
    assert not re.search("[\r’\u00a0\u202f]|  | $", text)
    for line in text.splitlines():
        fields = line.split("\t")
        assert len(fields) == columns
        assert all(field and field == field.strip() for field in fields)
        assert max(len(tokens(side)) for side in fields[:2]) <= 9, line
        assert re.search(r"[^ ][.!?]$", fields[0]), line
        assert re.search(r"([^ ]\.| [!?])$", fields[1]), line


def test_the_size_and_the_order():
    assert 5_000 <= len(PAIRS) <= 10_000
    assert sorted(PAIRS, key=lambda pair: (len(pair[0]), pair[0])) == PAIRS


def test_each_english_sentence_has_one_translation():
    english = [pair[0].lower() for pair in PAIRS]
    assert len(set(english)) == len(english)


@pytest.mark.parametrize(
    "pair",
    [
        ("Go.", "Va !"),
        ("I lost.", "J'ai perdu."),
        ("He's calm.", "Il est calme."),
        ("I'm home.", "Je suis chez moi."),
    ],
)
def test_the_sentences_of_the_book_are_there(pair):
    assert pair in PAIRS


def test_all_pairs_become_batches_in_a_moment():
    seconds = []
    for _ in range(3):
        start = time.process_time()
        d2l.load_data_nmt(batch_size=128, num_steps=10, num_examples=None)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.4


# ---- words


@SIDES
def test_each_word_occurs_often_enough_to_be_learnt(side):
    words = count(side)
    assert len(words) >= (400, 500)[side]
    assert [word for word in words if words[word] < 3] == []


@SIDES
def test_the_first_600_lines_repeat_their_words(side):
    """F044: with the default settings, <unk> in most targets."""
    words = count(side, PAIRS[:600])
    assert [word for word in words if words[word] < 2] == []


# ---- French


@pytest.mark.parametrize(
    ("phenomenon", "pattern"),
    [
        ("elided articles", r"\bl'\w+\b"),
        ("contraction", r"\b(au|aux|du)\b"),
        ("negation", r"\b(ne |n').*\b(pas|jamais)\b"),
        ("de after a negation", r"\b(pas|jamais) d(e |')"),
        ("inversion", r"\w-(t-)?(tu|il|elle|ils)\b"),
        ("past with être", r"\b(suis|es|est|sommes|sont) \w+(é|i|u)e?s?\b"),
        ("past with avoir", r"\b(ai|as|a|avons|ont) (\w+(é|i|u)|pris|fait|écrit|ouvert)\b"),
        ("agreement with an object before", r"\b(l'|les )(ai|as|a|avons|ont) \w+(e|s)\b"),
        ("pronoun before the verb", r"\b(je|tu|il|elle|nous|ils) (le|la|les|me|te|nous) \w"),
        ("possessives", r"\b(mon|ma|mes|ton|ta|tes|son|sa|ses|notre|nos|leur|leurs)\b"),
        ("adjective after", r"\b(un|une|le|la|les|des) \w+ (\w+s?) ?[.?!]"),
        ("il y a", r"\b(il y a|il n'y a|y a-t-il)\b"),
        ("imperative", r"^[^?]*!$"),
    ],
)
def test_the_grammar_is_covered(phenomenon, pattern):
    assert sum(bool(re.search(pattern, french.lower())) for french in FRENCH) >= 150, phenomenon


def test_words_elide_and_contract():
    vowel = r"[aeiouéêàâèœ]"
    elided = rf"(?<!-)\b(je|me|te|se|le|la|de|ne|que) (?!et\b|ou\b){vowel}"
    # not after a hyphen: "écoute-le aujourd'hui" is right
    unfit = [french for french in FRENCH if re.search(elided, french.lower())]
    assert unfit == []
    apart = rf"\b(à les?|de les|(ma|ta|sa|ce|beau|nouveau|un vieux) {vowel}\w*)\b"
    assert [french for french in FRENCH if re.search(apart, french.lower())] == []


# False alarms of Grammalecte: the rule, the sentences it misreads, and why they are right.
FALSE_ALARMS = [
    # "a" is the verb in "le voisin a froid"; the rule takes it for the preposition "à".
    ("conf_substantif_à_substantif", r" a (faim|soif|froid|peur|sommeil|tort|raison)\b"),
    # "le", "la", "les" are pronouns in "mon amie Marie les connaît", not articles.
    ("conf_suj_verbe_det_verbe_nom", r"(Paul|Max|Marie|Emma) (le|la|les) \w+"),
    # "sept oranges" are fruit; the rule takes "oranges" and "tomates" for colors.
    ("gn_couleurs_invariables", r"\w+ (oranges|tomates)\b"),
]


def grammalecte(sentences, folder):
    """The complaints about grammar and spelling, each as (sentence, rule or word)."""
    if not shutil.which("grammalecte-cli"):
        needed("grammalecte-cli is not installed: it is a package of Debian")
    file = folder / "sentences.txt"
    file.write_text("\n".join(sentences) + "\n", encoding="utf-8")
    command = ["grammalecte-cli", "-f", str(file), "-owe", "-ctx", "-j"]
    # not of typography: straight apostrophes and plain spaces are the corpus's format
    command += ["-off", "apos", "nbsp", "typo"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    complaints = []
    for paragraph in json.loads(out)["data"]:
        sentence = sentences[paragraph["iParagraph"] - 1]
        complaints += [(sentence, error["sRuleId"]) for error in paragraph["lGrammarErrors"]]
        complaints += [(sentence, error["sValue"]) for error in paragraph["lSpellingErrors"]]
    return complaints


def is_false_alarm(sentence, rule):
    return any(name in rule and re.search(text, sentence) for name, text in FALSE_ALARMS)


def test_grammalecte_has_no_complaint(tmp_path):
    complaints = grammalecte(FRENCH, tmp_path)
    assert [complaint for complaint in complaints if not is_false_alarm(*complaint)] == []


@pytest.mark.parametrize("wrong", ["Je vois un voiture rouge.", "Elle est parti.", "Ils a faim."])
def test_grammalecte_would_complain(wrong, tmp_path):
    assert grammalecte([wrong], tmp_path)


@SIDES
def test_hunspell_knows_every_word(side):
    language = ("en_US", "fr")[side]
    if not shutil.which("hunspell"):
        needed("hunspell is not installed: it is a package of Debian")
    listed = subprocess.run(["hunspell", "-D"], input="", capture_output=True, text=True).stderr
    if not re.search(rf"/{language}$", listed, re.MULTILINE):
        needed(f"hunspell has no dictionary {language}")
    text = "\n".join(pair[side] for pair in PAIRS + UNSEEN)
    command = ["hunspell", "-d", language, "-i", "utf-8", "-l"]
    unknown = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    assert unknown.stdout == ""


# ---- what is held out


def test_the_held_out_sentences_are_new():
    def letters(text):
        return re.sub(r"[^a-z' ]", "", text.lower())

    seen = {letters(english) for english, _ in PAIRS}
    unseen = [letters(english) for english, _, _ in UNSEEN]
    assert 300 <= len(set(unseen)) == len(unseen)
    assert seen.isdisjoint(unseen)


@SIDES
def test_the_held_out_words_are_known(side):
    words = count(side)
    assert [word for word in count(side, UNSEEN) if words[word] < 3] == []


# ---- the generator


pyrealb_leaves_files_open = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


@pytest.fixture(scope="module")
def made():
    spec = importlib.util.spec_from_file_location("make_corpus", ROOT / "tools" / "make_corpus.py")
    make_corpus = importlib.util.module_from_spec(spec)
    sys.modules["make_corpus"] = make_corpus  # its dataclasses look themselves up there
    spec.loader.exec_module(make_corpus)
    return make_corpus, *make_corpus.make_corpus()


@pyrealb_leaves_files_open
def test_the_generator_makes_these_files(made):
    make_corpus, corpus, held_out = made
    assert make_corpus.table(sentence[:2] for sentence in corpus) == CORPUS
    assert make_corpus.table(held_out) == HELD_OUT


@pyrealb_leaves_files_open
def test_each_phenomenon_is_taught_and_tested(made):
    make_corpus, corpus, held_out = made
    taught, tested = (Counter(s.phenomenon for s in part) for part in (corpus, held_out))
    for phenomenon in (make.__name__ for make in make_corpus.PHENOMENA):
        assert taught[phenomenon] >= 150, phenomenon
        assert tested[phenomenon] >= 15, phenomenon
    assert taught["idioms"] >= 50
