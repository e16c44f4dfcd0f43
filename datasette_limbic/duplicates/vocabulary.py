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
EVERY = frozenset({"every", "each", "cada", "per"})
# After a number: "30 euros al mes", "5 euros a month".
A_PERIOD = frozenset({"al", "a", "por"})
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
# "Nadie come" is the negation of "todos comen".
NO_ONE = _words("nadie ninguno ninguna ningun")
# Stems of participles that are not as their infinitive has them.
PARTICIPLES = {
    "hacer": "hech",
    "escribir": "escrit",
    "abrir": "abiert",
    "resolver": "resuelt",
    "poner": "puest",
    "romper": "rot",
    "volver": "vuelt",
    "devolver": "devuelt",
    "cubrir": "cubiert",
    "imprimir": "impres",
    "ver": "vist",
}
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
    kg: kilo kilos kilogram kilograms kilogramo kilogramos
    g: gram grams gramo gramos
    lb: lbs libra libras
    oz: ounce ounces onza onzas
    mile: miles milla millas
    ft: foot feet
    inch: inches pulgada pulgadas
    l: litre litres liter liters litro litros
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
    """``one/other``; where both end in -o, so do their other genders and plurals."""
    found: dict[str, set[str]] = {}
    for pair in text.split():
        one, other = pair.split("/")
        forms = [(one, other)]
        if one.endswith("o") and other.endswith("o"):
            forms += [(one[:-1] + end, other[:-1] + end) for end in ("a", "os", "as")]
        for mine, yours in forms:
            found.setdefault(mine, set()).add(yours)
            found.setdefault(yours, set()).add(mine)
    return {word: frozenset(others) for word, others in found.items()}


OPPOSITES = _opposites(
    """
    enabled/disabled enable/disable enables/disables true/false open/closed high/low yes/no
    allowed/forbidden allows/forbids passed/failed passes/fails succeeds/fails succeeded/failed
    always/never increased/decreased increases/decreases online/offline public/private
    optional/required optional/mandatory included/excluded includes/excludes accepted/rejected
    success/failure synchronous/asynchronous sync/async fast/slow minimum/maximum loves/hates
    likes/hates started/stopped read/write left/right married/divorced approved/rejected
    granted/denied won/lost wins/loses bought/sold buys/sells hot/cold warm/cold full/empty
    dead/alive cheap/expensive easy/hard easy/difficult safe/dangerous temporary/permanent
    ascending/descending positive/negative present/absent guilty/innocent paid/pending
    started/finished starts/ends begins/ends opens/closes opened/closed
    abierto/cerrado alto/bajo verdadero/falso permitido/prohibido siempre/nunca siempre/jamas
    publico/privado opcional/obligatorio opcional/obligatoria aceptado/rechazado incluye/excluye
    rapido/lento minimo/maximo ama/odia encendido/apagado pagado/pendiente pagada/pendiente
    pagados/pendientes pagadas/pendientes empezo/termino empieza/termina comenzo/termino
    comienza/termina gano/perdio gana/pierde compro/vendio compra/vende aprobado/rechazado
    concedido/denegado lleno/vacio barato/caro facil/dificil seguro/peligroso temporal/permanente
    ascendente/descendente positivo/negativo presente/ausente vivo/muerto caliente/frio
    soltero/casado casado/divorciado abre/cierra sube/baja subio/bajo
    """
)
WEAK_OPPOSITES = _opposites(
    """
    up/down in/out on/off before/after more/less faster/slower bigger/smaller
    older/younger higher/lower longer/shorter newer/older mayor/menor over/under
    above/below inside/outside lands/takes arrives/departs llega/sale aterriza/despega
    dark/light early/late earlier/later new/old first/last big/small large/small local/remote
    import/export input/output internal/external manual/automatic strong/weak better/worse
    best/worst north/south east/west added/removed adds/removes same/different more/fewer
    mas/menos antes/despues dentro/fuera encima/debajo arriba/abajo oscuro/claro temprano/tarde
    nuevo/viejo primero/ultimo grande/pequeno grande/pequena local/remoto local/remota
    interno/externo fuerte/debil mejor/peor norte/sur igual/distinto anadido/quitado
    agregado/eliminado cerca/lejos
    """
)
"""Opposites only in the same place of texts that are otherwise alike: each of them also says other
things ("on Monday", "off by one")."""
SIGNS = _opposites("👍/👎 ✅/❌ ✔/✘ ✓/✗ ☑/☒ ↑/↓ ⬆/⬇ 🟢/🔴 📈/📉 🔼/🔽 🔒/🔓")
# "stable" and "unstable", "activado" and "desactivado".
OPPOSING_PREFIXES = ("un", "dis", "in", "im", "des")

# Before a number: it is at least, or at most, so much.
BOUNDS: dict[tuple[str, ...], str] = {
    tuple(phrase.split()): side
    for side, phrases in (
        (
            "low",
            "at least, more than, greater than, higher than, longer than, over, above, minimum,"
            " min, minimum of, al menos, por lo menos, como minimo, minimo, mas de, minimo de,"
            " >, >=, ≥",
        ),
        (
            "high",
            "at most, less than, fewer than, lower than, shorter than, under, below, up to, max,"
            " maximum, maximum of, within, como mucho, como maximo, maximo, menos de, hasta,"
            " maximo de, <, <=, ≤",
        ),
    )
    for phrase in phrases.split(", ")
}
# "no more than 5" is "at most 5" and turns no statement around.
COMPARED = _words("more less fewer greater higher lower longer shorter mas menos")

# What says nothing of the order of what it stands between.
CLAUSE_ENDS = frozenset(".!?;:")
LINKS = _words("and or nor plus vs versus y e o u ni , & | /") | CLAUSE_ENDS
# Not "a", which is also Spanish for "to".
ARTICLES = _words("an the el la los las lo un una")
COPULAS = _words(
    "is are was were be been being es son era eran fue fueron sera seran ser sido esta estan estaba"
    " estaban"
)
PREPOSITIONS = _words("of for to from by in at on with de del para por a desde en con")
# "Ana is married to Luis" says the same of both.
BETWEEN_EQUALS = _words(
    "between entre married friend friends sibling siblings brother sister cousin cousins equal"
    " equals same similar identical near next close synonym alias casado casada amigo amiga amigos"
    " hermano hermana primo prima igual similar identico cerca junto sinonimo"
)
# "Ana works with Luis" too, but not "replaced this with that".
TOGETHER = _words(
    "work works worked working live lives lived share shares shared meet meets met talk talks play"
    " plays together trabaja trabajan trabajo vive viven habla hablan juega comparte junto"
)
