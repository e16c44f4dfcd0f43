"""Words of English and Spanish that state a number, a date, a frequency or a negation; folded."""

from __future__ import annotations

_UNITS = "zero:0 two:2 three:3 four:4 five:5 six:6 seven:7 eight:8 nine:9 ten:10 eleven:11"
_UNITS += " twelve:12 thirteen:13 fourteen:14 fifteen:15 sixteen:16 seventeen:17 eighteen:18"
_UNITS += " nineteen:19 twenty:20 thirty:30 forty:40 fifty:50 sixty:60 seventy:70 eighty:80"
_UNITS += " ninety:90 cero:0 dos:2 tres:3 cuatro:4 cinco:5 seis:6 siete:7 ocho:8 nueve:9 diez:10"
_UNITS += " doce:12 trece:13 catorce:14 quince:15 dieciseis:16 diecisiete:17 dieciocho:18"
_UNITS += " diecinueve:19 veinte:20 veintiuno:21 veintidos:22 veintitres:23 veinticuatro:24"
_UNITS += " veinticinco:25 veintiseis:26 veintisiete:27 veintiocho:28 veintinueve:29 treinta:30"
_UNITS += " cuarenta:40 cincuenta:50 sesenta:60 setenta:70 ochenta:80 noventa:90 doscientos:200"
_UNITS += " trescientos:300 quinientos:500"
_SCALES = "hundred:100 thousand:1000 million:1000000 cien:100 ciento:100 mil:1000 millon:1000000"
_SCALES += " millones:1000000"


def _numbers(text: str) -> dict[str, int]:
    return {word: int(value) for word, value in (each.split(":") for each in text.split())}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _aliases(text: str) -> dict[str, str]:
    """``b: c d`` on a line each: c and d mean b, and so does b."""
    found: dict[str, str] = {}
    for line in text.strip().splitlines():
        name, _, words = line.partition(":")
        found.update(dict.fromkeys([name.strip(), *words.split()], name.strip()))
    return found


# Not "one" and "un", which are also articles, and not Spanish "once", which is an English word.
NUMBERS = _numbers(_UNITS)
SCALES = _numbers(_SCALES)

MONTHS: dict[str, int] = {}
for _names in (
    "january february march april may june july august september october november december",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
):
    MONTHS.update({name: i for i, name in enumerate(_names.split(), 1)})
MONTHS["setiembre"] = 9
# Also other words: months only beside a day or a year.
SHORT_MONTHS = _numbers(
    "jan:1 feb:2 mar:3 apr:4 may:5 jun:6 jul:7 aug:8 sep:9 oct:10 nov:11 dec:12"
    " sept:9 ene:1 abr:4 ago:8 dic:12 march:3"
)
for _name in ("may", "march"):
    MONTHS.pop(_name)

WEEKDAYS: dict[str, str] = {}
for _names in (
    "monday tuesday wednesday thursday friday saturday sunday",
    "mondays tuesdays wednesdays thursdays fridays saturdays sundays",
    "lunes martes miercoles jueves viernes sabado domingo",
):
    WEEKDAYS.update(
        zip(_names.split(), ("mon", "tue", "wed", "thu", "fri", "sat", "sun"), strict=True)
    )
WEEKDAYS.update({"sabados": "sat", "domingos": "sun"})

FREQUENCIES = _aliases(
    """
    nightly: nocturno nocturna nocturnos nocturnas
    daily: diario diaria diarios diarias diariamente
    weekly: semanal semanales semanalmente
    fortnightly: biweekly quincenal quincenales
    monthly: mensual mensuales mensualmente
    quarterly: trimestral trimestrales
    yearly: annually annual anual anuales anualmente
    hourly:
    """
)
EVERY = frozenset({"every", "each", "cada"})
# "every night" is "nightly", "todas las noches" too.
PERIODS = _aliases(
    """
    nightly: night noche noches
    daily: day dia dias
    weekly: week semana semanas
    monthly: month mes meses
    quarterly: quarter trimestre
    yearly: year ano anos
    hourly: hour hora horas
    morning: mornings manana mananas
    evening: evenings tarde tardes
    """
)

NEGATIONS = _words(
    "not no never without neither nor none nobody nothing nowhere cannot cant dont doesnt didnt"
    " isnt arent wasnt werent wont wouldnt shouldnt couldnt hasnt havent hadnt nunca jamas sin"
    " ningun ninguna ninguno tampoco nadie nada ni"
)
# Between a negation and what it turns around, also any word in -ly and -mente.
ADVERBS = _words("longer yet really always often ever still currently todavia siempre mas")
# Come and go with a negation without saying anything.
AUXILIARIES = _words("do does did can could will would")

UNITS = _aliases(
    """
    %: percent pct
    euro: euros eur €
    dollar: dollars usd dolar dolares $
    pound: pounds gbp £
    byte: bytes
    kb: kilobytes kib
    mb: megabytes mib
    gb: gigabytes gib
    tb: terabytes tib
    ms: milliseconds milliseconds milisegundos
    second: s sec secs seconds segundo segundos
    minute: min mins minutes minuto minutos
    hour: h hr hrs hours hora horas
    day: days dia dias
    week: weeks semana semanas
    month: months mes meses
    year: years ano anos
    mm: millimetres millimeters milimetros
    cm: centimetres centimeters centimetros
    km: kilometres kilometers kilometros
    m: metres meters metro metros
    kg: kilos kilograms kilogramos
    g: grams gramos
    hz:
    khz:
    mhz:
    ghz:
    """
)

# What a number is the name of: "Task 15" and "Task 16" are two tasks, not one whose number changed.
LABELS = _words(
    "task step phase sprint stage issue pr item chapter section part level lesson module iteration"
    " round session test case ticket milestone commit day week quarter option rule point question"
    " story epic bug feature figure table appendix page line number num version release build"
    " tarea paso fase etapa sesion capitulo seccion parte nivel leccion modulo iteracion ronda"
    " prueba caso hito dia semana trimestre opcion regla punto pregunta pagina linea numero"
)

# What has one value at a time: "Status: open" and "Status: closed" cannot both be so.
ATTRIBUTES = _words(
    """
    status state priority severity owner assignee deadline due version stage phase progress
    estado prioridad gravedad responsable plazo vencimiento fase progreso
    """
)


def _opposites(text: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for pair in text.split():
        one, other = pair.split("/")
        found.setdefault(one, set()).add(other)
        found.setdefault(other, set()).add(one)
    return {word: frozenset(others) for word, others in found.items()}


OPPOSITES = _opposites(
    """
    enabled/disabled enable/disable enables/disables true/false open/closed high/low yes/no
    allowed/forbidden allows/forbids passed/failed passes/fails succeeds/fails always/never
    increased/decreased increases/decreases online/offline public/private optional/required
    optional/mandatory included/excluded includes/excludes accepted/rejected success/failure
    synchronous/asynchronous sync/async fast/slow before/after minimum/maximum loves/hates
    likes/hates started/stopped read/write left/right married/divorced
    abierto/cerrado abierta/cerrada alto/bajo alta/baja verdadero/falso permitido/prohibido
    siempre/nunca publico/privado publica/privada opcional/obligatorio opcional/obligatoria
    aceptado/rechazado aceptada/rechazada incluye/excluye rapido/lento rapida/lenta
    antes/despues minimo/maximo ama/odia
    """
)
# "stable" and "unstable", "activado" and "desactivado".
OPPOSING_PREFIXES = ("un", "dis", "in", "im", "des")
