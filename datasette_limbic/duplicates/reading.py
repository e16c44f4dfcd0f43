"""Taking a text apart into what it states.

English and Spanish; other languages are read for their figures, ISO dates and capitals.
"""

from __future__ import annotations

import re

from datasette_limbic.stop_words import STOP_WORDS
from datasette_limbic.text import fold, normalise, word_tokens

from . import vocabulary as v
from .stated import LOOKED_AT, Date, Number, Stated, stem

# Of a text's dates; they are compared each with each.
_MOST_DATES = 100

_LEXEME = re.compile(
    r"""(?P<iso>\b\d{4}([-/])\d{2}\2\d{2}(?![\d-]))
    |(?P<slash>\b\d{1,2}[/.]\d{1,2}[/.]\d{4}\b)
    |(?P<time>\b\d{1,2}:\d{2}(?::\d{2})?(?:\s?[ap]\.?m\b)?)
    |(?P<code>\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}|https?://[^\s)>\]]+
        |(?<![\w./-])(?:[\w.-]{0,60}/){1,20}[\w.-]{0,60}\.[A-Za-z]\w{0,5}\b
        |(?<![\w./-])(?:[\w.-]{0,60}/){2,20}[\w-]{0,60}
        |\b[A-Za-z]\w*_\w+
        |\b[A-Za-z][\w-]{0,60}\.(?:py|jsx?|tsx?|rs|go|cpp|[ch]|md|jsonl?|ya?ml|toml|txt|sql|db|html|css
            |sh|java|rb|php|ini|cfg|xml|csv|log|env|lock)\b)
    |(?P<thousands>(?<![\w.])[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)
        |(?<![\w.])\d{1,3}(?:\.\d{3})+(?:,\d+)?(?![\w.]*\d)
        |(?<![\w.])\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?![\w.]))
    |(?P<version>\b[vV]?\d+(?:\.\d+){2,}|\b[vV]\d+(?:\.\d+)*\b)
    |(?P<number>(?<![\w.])(?:(?<![^\s(])[-−])?\d+(?:[.,]\d+)?(?:st|nd|rd|th|º|ª)?
        (?=[^\W\d_]{0,4}(?!\w)))
    |(?P<word>[^\W_](?:[\w’'+#]|-(?=\w))*)
    |(?P<stop>[.!?…:;\n•,]|\s[-–—]\s)
    |(?P<sign>[%€$£])""",
    re.VERBOSE,
)
_CAMEL = re.compile(r"[a-z\d][A-Z]")
_POSSESSIVE = re.compile(r"['’]s?$")
_ATTRIBUTE = re.compile(r"[^\w]{0,5}(\w{1,20})[*_`]{0,3}\s{0,3}[:=]\s{0,3}([^\n]{1,60})")
_HEADING = re.compile(r"[\])*`]{0,3}\s{0,2}(?:[:–—|]|[.)\-](?!\w)|$)|[\])]")
_TICKET = re.compile(r"[A-Z]{2,10}-\d+")
_COMPARING = frozenset("<>≤≥")
# Not an arrow, and not a tag.
_COMPARISON = re.compile(r"(?<![-=<>\w])([<>]=?|[≤≥])\s?[€$£]?$")
_SENTENCE_END = frozenset(".!?…:;\n•")


def read(text: str) -> Stated:
    """What a text states. Of a long one the first ``LOOKED_AT`` characters are read."""
    head = text[:LOOKED_AT]
    reader = _Reader(head)
    reader.run()
    reader._clause_ends()
    tokens = tuple(word_tokens(head))
    return Stated(
        content=text,
        normal=normalise(text),
        tokens=tokens,
        words=frozenset(tokens),
        dates=reader.dates,
        rhythms=reader.rhythms,
        numbers=reader.numbers,
        names=reader.names,
        first=reader.first,
        negations=reader.negations,
        negated=frozenset(reader.negated),
        labels=frozenset(reader.labels),
        attribute=attribute_of(head),
        mould=tuple(reader.mould),
        bounds=reader.bounds,
        signs=frozenset(head).intersection(v.SIGNS),
    )


def attribute_of(text: str) -> tuple[str, str] | None:
    """(attribute folded, value as written) of a text such as ``Status: Open``; else None."""
    match = _ATTRIBUTE.fullmatch(text)
    if match is None or fold(match[1]) not in v.ATTRIBUTES:
        return None
    return fold(match[1]), match[2].strip()


class _Reader:
    """Reads one text; see ``Stated`` for what it collects."""

    def __init__(self, text: str) -> None:
        self.lexemes = [
            (m.lastgroup or "", m.group(), m.start(), m.end()) for m in _LEXEME.finditer(text)
        ]
        self.text = text
        self.dates: dict[Date, str] = {}
        self.rhythms: dict[str, str] = {}
        self.numbers: dict[Number, str] = {}
        self.names: dict[str, str] = {}
        self.negations = 0
        self.negated: set[str] = set()
        self.labels: set[str] = set()
        self.mould: list[str] = []
        self.first: str | None = None
        self.quiet = _capitals_say_nothing(self.lexemes)
        self.starts = True  # at the start of a sentence
        self.opening = True  # nothing but values so far
        self.clause: list[str] = []  # content words since the clause began
        self.bounds: dict[tuple[str, str], str] = {}
        self.compares = not _COMPARING.isdisjoint(text)
        self.no_one = False  # whether the last negation was of people or things, in Spanish
        self.turning = False  # whether a negation waits for the word that it turns around

    def run(self) -> None:
        i = 0
        while i < len(self.lexemes):
            kind, raw, _, _ = self.lexemes[i]
            if kind == "stop":
                self._clause_ends()
                self.starts = self.starts or raw in _SENTENCE_END or raw.strip() in ("-", "–", "—")
                i += 1
                continue
            if kind == "sign":
                taken = 1
            elif kind == "code":
                taken = self._code(i)
            else:
                taken = self._date(i) or self._rhythm(i) or self._number(i) or self._word(i)
            self.starts = False
            i += taken

    def _clause_ends(self) -> None:
        if self.turning:  # "not at all": nothing followed
            self.negated.update(self.clause[-1:])
        self.turning = False
        self.clause.clear()

    def _add(self, kind: str, placeholder: str) -> None:
        if not self.mould or self.mould[-1] != placeholder or kind != "name":
            self.mould.append(placeholder)

    def _peek(self, i: int) -> tuple[str, str]:
        """Kind and folded text of lexeme i, ('', '') past the end."""
        if i >= len(self.lexemes):
            return "", ""
        kind, raw, _, _ = self.lexemes[i]
        return kind, fold(raw)

    def _span(self, i: int, n: int) -> str:
        return self.text[self.lexemes[i][2] : self.lexemes[i + n - 1][3]]

    # -- dates -------------------------------------------------------------------------------

    def _date(self, i: int) -> int:
        found = self._date_at(i)
        if found is None:
            return 0
        date, taken = found
        raw = self._span(i, taken)
        if len(self.dates) < _MOST_DATES:
            self.dates.setdefault(date, raw)
        iso = self.lexemes[i][0] == "iso"
        if self.opening and (iso or self._heads(i + taken - 1)):
            self.labels.add(f"on {date}")
        self._add("date", "<date>")
        return taken

    def _date_at(self, i: int) -> tuple[Date, int] | None:
        kind, raw = self._peek(i)
        if kind == "iso":
            year, month, day = (int(part) for part in re.split("[-/]", raw))
            return Date(year, month, day), 1
        if kind == "slash":
            one, two, year = (int(part) for part in re.split(r"[/.]", raw))
            # 3/4/2024 may be of March or April; two of one text are still told apart
            day, month = (two, one) if two > 12 else (one, two)
            return Date(year, month, day), 1
        if kind == "number":
            return self._day_first(i)
        if kind == "word" and raw in v.MONTHS:
            return self._month_first(i, v.MONTHS[raw], certain=True)
        if kind == "word" and raw in v.SHORT_MONTHS:
            return self._month_first(i, v.SHORT_MONTHS[raw], certain=False)
        return None

    def _month_at(self, i: int) -> int | None:
        kind, raw = self._peek(i)
        return v.MONTHS.get(raw) or v.SHORT_MONTHS.get(raw) if kind == "word" else None

    def _day_first(self, i: int) -> tuple[Date, int] | None:
        """``30 September``, ``30th of September 2026``, ``30 de septiembre de 2026``."""
        day = _day(self._peek(i)[1])
        if day is None:
            return None
        step = 2 if self._peek(i + 1)[1] in ("of", "de") else 1
        month = self._month_at(i + step)
        if month is None:
            return None
        year, taken = self._year_after(i + step + 1)
        return Date(year, month, day), step + 1 + taken

    def _month_first(self, i: int, month: int, *, certain: bool) -> tuple[Date, int] | None:
        """``September 30th, 2026``, ``September 2026``, ``septiembre de 2026``, ``September``."""
        day = _day(self._peek(i + 1)[1]) if self._peek(i + 1)[0] == "number" else None
        if day is not None:
            year, taken = self._year_after(i + 2)
            return Date(year, month, day), 2 + taken
        year, taken = self._year_after(i + 1)
        capital = self.lexemes[i][1][:1].isupper() and not self.starts
        if year is None and not certain and not (capital and len(self.lexemes[i][1]) > 3):
            # "may" and "march" are verbs, "dec" and "mar" may be anything
            before = self._peek(i - 1)[1] if i else ""
            if not (capital and before in ("in", "by", "since", "until", "en")):
                return None
        return Date(year, month, None), 1 + taken

    def _year_after(self, i: int) -> tuple[int | None, int]:
        skipped = 1 if self._peek(i)[1] in (",", "of", "de", "del") else 0
        kind, raw = self._peek(i + skipped)
        if kind == "number" and re.fullmatch(r"(19|20)\d\d", raw):
            return int(raw), skipped + 1
        return None, 0

    def _rhythm(self, i: int) -> int:
        kind, raw = self._peek(i)
        if kind != "word":
            return 0
        found, taken = v.FREQUENCIES.get(raw) or v.WEEKDAYS.get(raw), 1
        if found is None and raw in v.EVERY:
            found, taken = v.PERIODS.get(self._peek(i + 1)[1]), 2
        if found is None and raw in v.A_PERIOD and i and self._counts(i - 1):
            skipped = 1 if self._peek(i + 1)[1] == "la" else 0
            found, taken = v.PERIODS.get(self._peek(i + 1 + skipped)[1]), 2 + skipped
        if found is None and raw in ("todos", "todas") and self._peek(i + 1)[1] in ("los", "las"):
            found, taken = v.PERIODS.get(self._peek(i + 2)[1]), 3
        if found is None:
            return 0
        self.rhythms.setdefault(found, self._span(i, taken))
        if self.opening and self._heads(i + taken - 1):
            self.labels.add(found)
        self._add("date", "<rhythm>")
        return taken

    def _counts(self, i: int) -> bool:
        """Whether lexeme i is a number or its unit, as in ``30 euros``."""
        kind, raw = self._peek(i)
        if kind in ("number", "thousands", "sign"):
            return True
        return raw in v.UNITS or raw in ("veces", "times")

    # -- numbers -----------------------------------------------------------------------------

    def _number(self, i: int) -> int:
        kind, raw = self._peek(i)
        taken = 1
        if kind == "word":
            value, taken = self._number_words(i)
            if value is None:
                return 0
        elif kind == "time":
            value = _clock(raw)
        elif kind == "version":
            value = raw.lstrip("v")
        elif kind == "thousands":
            value = _plain(raw)
        elif kind == "number":
            value = re.sub(r"(st|nd|rd|th|º|ª|o|a)$", "", raw).replace(",", ".").replace("−", "-")
            value = re.sub(r"\.0+$", "", value).lstrip("0") or "0"
        else:
            return 0
        scale = v.SCALES.get(self._peek(i + taken)[1]) or self._short_scale(i, taken)
        if scale and re.fullmatch(r"\d+(\.\d+)?", value):
            value = f"{float(value) * scale:.12g}"
            taken += 1
        if kind == "number" and value.isdigit() and self._peek(i + 1)[1] in ("am", "pm"):
            kind, taken = "time", 2
            value = _clock(f"{value}:00{self._peek(i + 1)[1]}")
        raw = self._span(i, taken)
        unit, units = self._unit(i, i + taken) if kind not in ("time", "version") else (None, 0)
        before = self._peek(i - 1)[1] if i else ""
        if (self.opening and self._heads(i + taken - 1)) or (
            before in v.LABELS or self._is_reference(i)
        ):
            self.labels.add(f"{stem(before)} {value}")
        taken += units
        self._bound(i, value, raw)
        self.numbers.setdefault(Number(value, unit), raw)
        self._add("number", "<number>")
        return taken

    def _short_scale(self, i: int, taken: int) -> int | None:
        """1000 for ``5k``, a million for ``$5M`` and ``5 M euros``: a currency tells it from
        metres."""
        after = i + taken
        letter = self._peek(after)[1]
        if letter == "k" and self.lexemes[after][2] == self.lexemes[after - 1][3]:
            return 1000
        around = self._peek(i - 1)[1] if i else "", self._peek(after + 1)[1]
        priced = any(v.UNITS.get(each) in ("euro", "dollar", "pound") for each in around)
        return 1_000_000 if letter == "m" and priced else None

    def _number_words(self, i: int) -> tuple[str | None, int]:
        raw = self._peek(i)[1]
        tens, _, ones = raw.partition("-")
        if ones and tens in v.NUMBERS and (ones == "one" or ones in v.NUMBERS):
            return str(v.NUMBERS[tens] + v.NUMBERS.get(ones, 1)), 1
        if raw in v.NUMBERS:
            return str(v.NUMBERS[raw]), 1
        if raw in v.SCALES and raw not in ("million", "millon"):
            return str(v.SCALES[raw]), 1
        return None, 1

    def _unit(self, i: int, after: int) -> tuple[str | None, int]:
        """The unit of the number at i, and how many lexemes it takes after the number."""
        unit = v.UNITS.get(self._peek(after)[1])
        if unit is not None:
            return unit, 1
        signed = i > 0 and self.lexemes[i - 1][0] == "sign"
        return v.UNITS.get(self.lexemes[i - 1][1]) if signed else None, 0

    def _bound(self, i: int, value: str, raw: str) -> None:
        """Keep whether what stands before lexeme i makes it a limit."""
        start = self.lexemes[i][2]
        before = [self._peek(j)[1] if j >= 0 else "" for j in range(i - 4, i)]
        if before[-1] in ("€", "$", "£"):
            before = [self._peek(i - 5)[1] if i >= 5 else "", *before[:-1]]
        side, said = None, ""
        sign = _COMPARISON.search(self.text, max(0, start - 6), start) if self.compares else None
        if sign is not None:
            side, said = v.BOUNDS[(sign[1],)], sign[1]
        for size in (3, 2, 1) if sign is None else ():
            side = v.BOUNDS.get(tuple(before[-size:]))
            if side is not None:
                said = " ".join(before[-size:])
                if before[-size - 1] in ("no", "not"):
                    side, said = ("high" if side == "low" else "low"), f"no {said}"
                break
        if side is not None:
            self.bounds.setdefault((value, side), f"{said} {raw}")

    def _heads(self, i: int) -> bool:
        """Whether lexeme i heads what follows ("3:", "[2026-05-01]", "a.rs: ..."), or is all."""
        return _HEADING.match(self.text, self.lexemes[i][3]) is not None

    def _is_reference(self, i: int) -> bool:
        """``#12``, or the number of ``(subtask 4.6)``."""
        start, end = self.lexemes[i][2:]
        if start and self.text[start - 1] == "#":
            return True
        opens = self.lexemes[i - 1][2] - 1 if i else -1
        return opens >= 0 and self.text[opens] == "(" and self.text[end : end + 1] == ")"

    # -- words -------------------------------------------------------------------------------

    def _word(self, i: int) -> int:
        kind, written, _, _ = self.lexemes[i]
        if kind != "word":
            return 1
        plain = _POSSESSIVE.sub("", written)
        word = fold(plain)
        bare = word.replace("'", "").replace("’", "")
        if self.compares and i and "\n" not in self._span(i - 1, 2):
            self._bound(i, word, plain)
        after = self._peek(i + 1)[1], self._peek(i + 2)[1]
        if bare in ("no", "not") and after[0] in v.COMPARED and after[1] in ("than", "de"):
            return 1  # "no more than 5" is "at most 5"
        if bare in v.NEGATIONS or word.endswith(("n't", "n’t")):
            self.negations += 1
            self.turning = True
            self.opening = False
            self.no_one = bare in v.NO_ONE
            if bare == "sin":
                self._without(self._peek(i + 1)[1])
            # "no one" is "nobody"
            return 2 if bare == "no" and self._peek(i + 1)[1] == "one" else 1
        if word in v.AUXILIARIES:
            return 1
        if self.starts and not self.mould and plain[:1].isupper():
            self.first = plain
        if self._is_name(plain, word):
            self.names.setdefault(word, plain)
            if _TICKET.fullmatch(plain):
                self.labels.add(word)
            self._add("name", "<name>")
        else:
            self.mould.extend(word_tokens(plain))
        if word not in STOP_WORDS:
            self.clause.append(stem(word))
            if self.turning and not (word in v.ADVERBS or word.endswith(("ly", "mente"))):
                self.negated.add(stem(word))
                if self.no_one:
                    self.negated.add(stem(word + "n"))
                self.turning = False
        self.opening = self.opening and word in v.LABELS
        return 1

    def _without(self, word: str) -> None:
        """``sin pagar`` turns *pagado* around."""
        if word in v.PARTICIPLES:
            self.negated.update(stem(v.PARTICIPLES[word] + end) for end in ("o", "os"))
        elif len(word) >= 5 and word.endswith(("ar", "er", "ir")):
            self.negated.add(word[:-2] + ("ad" if word.endswith("ar") else "id"))

    def _code(self, i: int) -> int:
        raw = self.lexemes[i][1]
        name = fold(raw).strip("/.")
        self.names.setdefault(name, raw)
        if self.opening and self._heads(i):
            self.labels.add(name)
        self.opening = False
        self._add("name", "<name>")
        return 1

    def _is_name(self, plain: str, word: str) -> bool:
        if len(plain) < 2 or word in STOP_WORDS or word in v.LABELS:
            return False
        letters = [c for c in plain if c.isalpha()]
        if len(letters) < len(plain) and any(c.isdigit() for c in plain) and letters:
            return True
        if _CAMEL.search(plain):
            return True
        if self.quiet == "upper":
            return False
        if len(letters) > 1 and all(c.isupper() for c in letters):
            return True
        return plain[0].isupper() and not self.starts and self.quiet != "title"


def _capitals_say_nothing(lexemes: list[tuple[str, str, int, int]]) -> str:
    """``upper`` or ``title`` where the whole text is written so, else ``''``."""
    words = [raw for kind, raw, _, _ in lexemes if kind == "word" and len(raw) > 1]
    cased = [w for w in words if w.lower() != w.upper()]
    if len(cased) >= 2 and all(w == w.upper() for w in cased):
        return "upper"
    later = [w for w in cased[1:] if len(w) > 3]
    small = [w for w in cased[1:] if w[0].islower() and fold(w) not in STOP_WORDS]
    return "title" if len(later) >= 3 and not small else ""


def _day(raw: str) -> int | None:
    match = re.fullmatch(r"(\d{1,2})(?:st|nd|rd|th|º|ª|o|a)?", raw)
    day = int(match[1]) if match else 0
    return day if 1 <= day <= 31 else None


def _clock(raw: str) -> str:
    match = re.match(r"(\d+):(\d+)", raw)
    assert match is not None  # the lexeme is made so
    hour, minute = int(match[1]), match[2]
    if "p" in raw and hour < 12:
        hour += 12
    elif "a" in raw and hour == 12:
        hour = 0
    if minute == "00" and raw.count(":") == 1:
        return str(hour)  # "9:00" is "9"
    return f"{hour}:{minute}{''.join(re.findall(r'(?<=:..):[0-9]{2}', raw))}"


def _plain(raw: str) -> str:
    """A number with separators of thousands, without them: the last separator is a decimal one
    only where it differs from those before."""
    comma, point = raw.rfind(","), raw.rfind(".")
    if comma >= 0 and point >= 0:
        decimal = "," if comma > point else "."
        whole, _, rest = raw.rpartition(decimal)
        return re.sub(r"[^\d-]", "", whole) + "." + rest
    return re.sub(r"[^\d-]", "", raw)
