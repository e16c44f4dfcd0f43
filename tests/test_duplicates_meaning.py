"""What the packaged model makes alike and is not the same: roles that change places, opposites,
limits, units, addresses; and what says the same in other words and must stay so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from datasette_limbic import embedding
from datasette_limbic.duplicates import (
    MODEL_THRESHOLDS,
    Observation,
    Pair,
    Thresholds,
    find_pairs,
)

MODEL = "limbic-multilingual"


def found(one: str, other: str, *, vectors: bool = True) -> Pair | None:
    """The pair that `find_pairs` makes of two texts with the vectors of the packaged model."""
    matrix: Any = None
    if vectors:
        matrix = np.asarray(embedding.run_model(MODEL, [one, other]), dtype=np.float32)
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    texts = [Observation(1, 1, one), Observation(2, 1, other)]
    pairs = find_pairs(texts, matrix, Thresholds(*MODEL_THRESHOLDS[MODEL]))
    return pairs[0] if pairs else None


# (one, other, what they differ in)
CONTRADICTING = [
    ("Migrated from MySQL to Postgres", "Migrated from Postgres to MySQL", "order"),
    ("Decidimos usar React en vez de Vue", "Decidimos usar Vue en vez de React", "order"),
    ("Service A calls service B", "Service B calls service A", "order"),
    ("atlas depends on orion", "orion depends on atlas", "order"),
    ("Ana is the manager of Luis", "Luis is the manager of Ana", "order"),
    ("El jefe de Ana es Luis", "El jefe de Luis es Ana", "order"),
    ("Ana told Luis about the bug", "Luis told Ana about the bug", "order"),
    ("The server is up.", "The server is down.", "opposite"),
    ("No one likes coffee here.", "Everyone likes coffee here.", "negation"),
    ("La factura está sin pagar", "La factura está pagada", "negation"),
    ("latency >= 50 ms", "latency <= 50 ms", "limit"),
    ("x > 5", "x < 5", "limit"),
    ("She never eats meat", "She always eats meat", "opposite"),
    ("Nunca come carne", "Siempre come carne", "opposite"),
    ("El servidor está encendido", "El servidor está apagado", "opposite"),
    ("It needs at least 8 GB", "It needs at most 8 GB", "limit"),
    ("Takes less than 5 minutes", "Takes more than 5 minutes", "limit"),
    ("User prefers dark mode", "User prefers light mode", "opposite"),
    ("The deploy succeeded", "The deploy failed", "opposite"),
    ("La reunión empezó a las 9", "La reunión terminó a las 9", "opposite"),
    ("La factura está pagada", "La factura está pendiente", "opposite"),
    ("Ana arrives early", "Ana arrives late", "opposite"),
    ("Cobra 30.000 euros al año", "Cobra 30.000 euros al mes", "date"),
    ("The parcel weighs 5 kg", "The parcel weighs 5 lb", "number"),
    ("Her mail is ana@example.com", "Her mail is ana@example.org", "name"),
    ("Her mail is maria@example.com", "Her mail is maria.lopez@example.com", "name"),
    ("Docs live at https://docs.example.com/a", "Docs live at https://wiki.example.com/a", "name"),
    (
        "Orders flow from Shopify to Odoo every hour",
        "Every hour orders flow from Odoo to Shopify",
        "order",
    ),
    ("We switched to Go from Rust", "We switched from Go to Rust", "order"),
    ("Rust is faster than Go", "Go is faster than Rust", "order"),
    ("Prefiere el té al café", "Prefiere el café al té", "order"),
    ("Marta lleva el proyecto de Óscar", "Óscar lleva el proyecto de Marta", "order"),
    (
        "El módulo pagos llama al módulo usuarios",
        "El módulo usuarios llama al módulo pagos",
        "order",
    ),
    ("frontend imports backend types", "backend imports frontend types", "order"),
    ("Tests run before the build", "Tests run after the build", "opposite"),
    ("Service A is called by service B", "Service A calls service B", "order"),
    ("Ana owes Luis 50 euros", "Luis owes Ana 50 euros", "order"),
    ("The price rose from 5 to 10 euros", "The price rose from 10 to 5 euros", "order"),
    ("Replaced Jenkins with GitHub", "Replaced GitHub with Jenkins", "order"),
    ("The cat chased the dog", "The dog chased the cat", "order"),
    ("Copia de la base main a la base replica", "Copia de la base replica a la base main", "order"),
    ("The heating is on", "The heating is off", "opposite"),
    ("La luz está dentro del armario", "La luz está fuera del armario", "opposite"),
    ("Tests ✅", "Tests ❌", "opposite"),
    ("Nobody uses the old API", "Everybody uses the old API", "negation"),
    ("Nadie usa la API vieja", "Todos usan la API vieja", "negation"),
    ("All of the tests pass", "None of the tests pass", "negation"),
    ("El informe está sin terminar", "El informe está terminado", "negation"),
    ("Passwords need at least 12 characters", "Passwords may have up to 12 characters", "limit"),
    ("Como mucho 3 reintentos", "Al menos 3 reintentos", "limit"),
    ("El plazo es de más de 30 días", "El plazo es de menos de 30 días", "limit"),
    ("Free for teams under 10 people", "Free for teams over 10 people", "limit"),
    ("The plan costs 20 euros per month", "The plan costs 20 euros per year", "date"),
    ("Cuesta 20 euros al mes", "Cuesta 20 euros por semana", "date"),
    ("The door opens at 9", "The door closes at 9", "opposite"),
    ("The build failed on main", "The build passed on main", "opposite"),
    ("Luis ganó el torneo", "Luis perdió el torneo", "opposite"),
    ("Ana vendió la casa", "Ana compró la casa", "opposite"),
    ("The old parser is used", "The new parser is used", "opposite"),
    ("Deploys happen before lunch", "Deploys happen after lunch", "opposite"),
    ("Prefers more detail in answers", "Prefers less detail in answers", "opposite"),
    ("a > b in this order", "a < b in this order", "limit"),
    ("Luis reports to Ana", "Ana reports to Luis", "order"),
    ("The API depends on the worker", "The worker depends on the API", "order"),
    ("Use tabs rather than spaces", "Use spaces rather than tabs", "order"),
    ("El cliente paga al proveedor", "El proveedor paga al cliente", "order"),
    ("Budget is $5k", "Budget is $6k", "number"),
    ("Carla lent Pedro the camera", "Pedro lent Carla the camera", "order"),
    (
        "Traffic goes through Nginx before Varnish",
        "Traffic goes through Varnish before Nginx",
        "order",
    ),
    ("Se pasó de Angular a Svelte en 2023", "Se pasó de Svelte a Angular en 2023", "order"),
    (
        "Module billing emits events to module audit",
        "Module audit emits events to module billing",
        "order",
    ),
    ("The primary replicates to the standby", "The standby replicates to the primary", "order"),
    ("Elena sustituye a Marcos en agosto", "Marcos sustituye a Elena en agosto", "order"),
    ("Prefers email over phone calls", "Prefers phone calls over email", "order"),
    ("The invoice was sent by Ana to Luis", "The invoice was sent by Luis to Ana", "order"),
    ("Ana's brother-in-law hired Luis", "Luis hired Ana's brother-in-law", "order"),
    ("User trusts Claude more than Gemini", "User trusts Gemini more than Claude", "order"),
    ("The alarm is switched off at night", "The alarm is switched on at night", "opposite"),
    ("El aire acondicionado está apagado", "El aire acondicionado está encendido", "opposite"),
    ("Nobody reviewed the patch", "Everyone reviewed the patch", "negation"),
    ("CPU stays under 70 %", "CPU stays above 70 %", "limit"),
    ("retries < 3", "retries > 3", "limit"),
    (
        "Las reuniones son siempre por la mañana",
        "Las reuniones nunca son por la mañana",
        "opposite",
    ),
    ("The account is active", "The account is inactive", "opposite"),
    ("La tarea está sin hacer", "La tarea está hecha", "negation"),
    ("El pedido está sin enviar", "El pedido ya está enviado", "negation"),
    ("The migration was completed", "The migration was not completed", "negation"),
    ("Call her at +34 600 111 222", "Call her at +34 600 333 444", "number"),
    ("Repository: https://github.com/acme/api", "Repository: https://github.com/acme/web", "name"),
    ("Rent is 900 euros a month", "Rent is 900 euros a year", "date"),
    ("The rope is 5 m long", "The rope is 5 ft long", "number"),
    (
        "After the review we decided to move the CI from CircleCI to GitHub Actions",
        "We moved the CI from GitHub Actions to CircleCI after the review",
        "order",
    ),
    (
        "Sofía prefiere que Diego presente el informe",
        "Diego prefiere que Sofía presente el informe",
        "order",
    ),
    ("The parser feeds the indexer", "The indexer feeds the parser", "order"),
    (
        "User asked to use British spelling, not American",
        "User asked to use American spelling, not British",
        "order",
    ),
    (
        "The gateway listens for HTTP and forwards gRPC",
        "The gateway listens for gRPC and forwards HTTP",
        "order",
    ),
    (
        "Backups are kept on S3 and copied to Glacier",
        "Backups are kept on Glacier and copied to S3",
        "order",
    ),
    (
        "Las facturas vencidas se pagan antes del día 10",
        "Las facturas vencidas se pagan después del día 10",
        "opposite",
    ),
    ("Ana no quiere reuniones los viernes", "Ana quiere reuniones los viernes", "negation"),
    ("The cache is warm at start", "The cache is cold at start", "opposite"),
    ("Her flight lands at 9", "Her flight takes off at 9", "opposite"),
    ("User is left-handed", "User is right-handed", "opposite"),
    (
        "The tests are flaky on Windows, fine on Linux",
        "The tests are flaky on Linux, fine on Windows",
        "order",
    ),
    ("Compra la leche sin lactosa", "Compra la leche con lactosa", "negation"),
]

# (one, other, what they are)
NOT_CONTRADICTING = [
    ("We use React instead of Vue", "React is used instead of Vue", "duplicate"),
    ("Ana and Luis manage the team", "Luis and Ana manage the team", "duplicate"),
    ("Budget is $5k", "Budget is 5,000 dollars", "duplicate"),
    ("Maria lives in Lisbon with her cat", "Maria vive en Lisboa con su gato", "duplicate"),
    ("Maria lives in Lisbon", "Maria lives in Lisboa", "look"),
    ("Migrated from MySQL to Postgres", "Migrated to Postgres from MySQL", "duplicate"),
    ("The team uses Python, Go and Rust", "The team uses Rust, Python and Go", "duplicate"),
    ("El equipo usa Python, Go y Rust", "El equipo usa Rust, Go y Python", "duplicate"),
    ("Ana is married to Luis", "Luis is married to Ana", "duplicate"),
    ("Ana works with Luis", "Luis works with Ana", "duplicate"),
    ("Ana está casada con Luis", "Luis está casado con Ana", "duplicate"),
    ("Service A calls service B", "Service B is called by service A", "duplicate"),
    ("Ana manages Luis", "Luis is managed by Ana", "duplicate"),
    ("The boss is Ana", "Ana is the boss", "duplicate"),
    ("El jefe de Ana es Luis", "Luis es el jefe de Ana", "duplicate"),
    ("On Monday Ana deploys", "Ana deploys on Monday", "duplicate"),
    ("Use tabs instead of spaces", "Instead of spaces, use tabs", "duplicate"),
    ("Friend of Ana: Luis", "Luis: friend of Ana", "duplicate"),
    (
        "Tests run in Jenkins, deploys in ArgoCD",
        "Deploys in ArgoCD, tests run in Jenkins",
        "duplicate",
    ),
    ("Deploy on Mondays and Fridays", "Deploy on Fridays and Mondays", "duplicate"),
    ("Likes tea, coffee and milk", "Likes coffee, milk and tea", "duplicate"),
    ("Le gustan el té y el café", "Le gustan el café y el té", "duplicate"),
    ("At most 5 retries are made", "No more than 5 retries are made", "duplicate"),
    ("Takes under 50 ms to answer", "Takes less than 50 ms to answer", "duplicate"),
    ("latency <= 50 ms", "latency at most 50 ms", "duplicate"),
    ("La factura está sin pagar", "La factura no está pagada", "duplicate"),
    ("Nobody likes coffee here", "No one likes coffee here", "duplicate"),
    ("She never eats meat", "She does not eat meat, ever", "duplicate"),
    ("Log in to the app before you start", "Before you start, log in to the app", "duplicate"),
    ("The server went down at night", "At night the server went down", "duplicate"),
    ("Cuesta 20 euros al mes", "Cuesta 20 euros mensuales", "duplicate"),
    ("The plan costs 20 euros per month", "The plan costs 20 euros a month", "duplicate"),
    ("The parcel weighs 5 kg", "The parcel weighs 5 kilos", "look"),
    ("Her mail is ana@example.com", "Ana's mail is ana@example.com", "duplicate"),
    ("The office is in London", "La oficina está en Londres", "duplicate"),
    (
        "Docs are at https://docs.example.com/",
        "Docs are at https://docs.example.com/start",
        "duplicate",
    ),
    ("The link between Ana and Luis", "The link between Luis and Ana", "duplicate"),
    ("Rust is faster than Go", "Go is slower than Rust", "duplicate"),
    ("The mode is off", "The mode is not on", "duplicate"),
    ("User wants short answers in Spanish", "In Spanish, user wants short answers", "duplicate"),
    ("Always run the tests before a commit", "Run the tests always before committing", "duplicate"),
    ("Never skip the tests", "Always run the tests, never skip them", "duplicate"),
    (
        "Logs go from app to Kafka and on to S3",
        "Logs go from app to Kafka, then to S3",
        "duplicate",
    ),
    ("Nora y Pablo viven en Madrid", "Pablo y Nora viven en Madrid", "duplicate"),
    (
        "On Monday meet Ana, on Friday meet Luis",
        "On Friday meet Luis, on Monday meet Ana",
        "duplicate",
    ),
    ("If the build fails, tell Ana", "Tell Ana if the build fails", "duplicate"),
    ("Budget of 2 M euros", "Budget of 2 million euros", "look"),
    (
        "Data is stored in Postgres and cached in Redis",
        "Data is cached in Redis and stored in Postgres",
        "duplicate",
    ),
    ("Carla lent Pedro the camera", "Pedro was lent the camera by Carla", "duplicate"),
    ("Elena sustituye a Marcos en agosto", "En agosto, Elena sustituye a Marcos", "duplicate"),
    ("Prefers email over phone calls", "Prefers email to phone calls", "duplicate"),
    (
        "Traffic goes through Nginx and Varnish",
        "Traffic goes through Varnish and Nginx",
        "duplicate",
    ),
    ("El servicio usa Redis y Postgres", "El servicio usa Postgres y Redis", "duplicate"),
    ("Ana, Luis and Eva are on the team", "Eva, Ana and Luis are on the team", "duplicate"),
    ("Berlin is the capital of Germany", "The capital of Germany is Berlin", "duplicate"),
    ("Carla and Pedro are cousins", "Pedro and Carla are cousins", "duplicate"),
    ("The budget is 2.5k euros", "The budget is 2,500 euros", "look"),
    ("Salary: $80k", "Salary: 80,000 dollars", "duplicate"),
    (
        "In Spain Ana drives, in France she walks",
        "In France Ana walks, in Spain she drives",
        "duplicate",
    ),
    (
        "The primary replicates to the standby",
        "The standby is replicated to by the primary",
        "duplicate",
    ),
    ("Never commit secrets", "Do not ever commit secrets", "duplicate"),
    ("Files over 10 MB are rejected", "Files larger than 10 MB are rejected", "duplicate"),
    ("Answers in under 2 s", "It answers in less than 2 seconds", None),
    ("Como mucho 3 reintentos", "No más de 3 reintentos", "duplicate"),
    (
        "El usuario prefiere respuestas cortas y claras",
        "El usuario prefiere respuestas claras y cortas",
        "duplicate",
    ),
    ("User likes hiking and reading", "User likes reading and hiking", "duplicate"),
    ("Ana lives in Florence", "Ana vive en Florencia", "duplicate"),
    ("The server is down", "The server is not up", "duplicate"),
    ("Pagos se ejecuta antes que envíos", "Envíos se ejecuta después que pagos", "duplicate"),
    ("The build runs before the deploy", "The deploy runs after the build", "duplicate"),
    ("Tests: unit, then integration", "Unit tests run, then integration tests", None),
    ("Luis is older than Ana", "Ana is younger than Luis", "duplicate"),
    ("Meeting with Ana on Monday about Kafka", "Monday meeting with Ana about Kafka", "duplicate"),
    (
        "Kafka feeds Spark, and Spark feeds Hive",
        "Spark feeds Hive, and Kafka feeds Spark",
        "duplicate",
    ),
    (
        "The team of Sofía reports to Diego every week",
        "Every week Sofía's team reports to Diego",
        "duplicate",
    ),
    ("Diego asked Sofía for the report", "Sofía was asked by Diego for the report", "duplicate"),
    (
        "User prefers tea in the morning and coffee at noon",
        "User prefers coffee at noon and tea in the morning",
        "duplicate",
    ),
    (
        "Deploys go out on Tuesday after the tests pass",
        "After the tests pass, deploys go out on Tuesday",
        "duplicate",
    ),
    (
        "The app talks to Redis and Postgres over TLS",
        "Over TLS the app talks to Postgres and Redis",
        "duplicate",
    ),
    ("Logs are kept for 30 days and then deleted", "Logs are deleted after 30 days", "duplicate"),
    (
        "El informe lo escribe Ana y lo revisa Luis",
        "Ana escribe el informe y Luis lo revisa",
        "duplicate",
    ),
    ("The first release was in 2020", "The oldest release is from 2020", "look"),
    (
        "Old laptops are replaced by new ones every 3 years",
        "Every 3 years new laptops replace the old ones",
        "duplicate",
    ),
    ("The user wants the new design", "The user wants the redesigned, not the old, layout", None),
    (
        "Ana, the manager of Luis, works from Porto",
        "Luis's manager Ana works from Porto",
        "duplicate",
    ),
    (
        "Postgres is used for data, Redis for caching",
        "Redis for caching, Postgres is used for data",
        "duplicate",
    ),
    ("Use at least Python 3.10", "Python 3.10 or newer is used", "duplicate"),
    ("Uploads up to 10 MB are allowed", "Uploads over 10 MB are not allowed", "duplicate"),
    ("No less than two reviewers", "At least two reviewers", "duplicate"),
    (
        "The light goes on when the door is open",
        "When the door is open the light goes on",
        "duplicate",
    ),
    ("Luis cooks for Ana and the kids", "For Ana and the kids Luis cooks", "duplicate"),
    ("Meets Ana and then Luis on Mondays", "On Mondays meets Ana and then Luis", "duplicate"),
    (
        "The queue is in Kafka; the API is in Go",
        "The API is in Go; the queue is in Kafka",
        "duplicate",
    ),
    (
        "La API está escrita en Go y desplegada en AWS",
        "Desplegada en AWS, la API está escrita en Go",
        "duplicate",
    ),
    ("Turn off notifications at night", "At night, notifications are turned off", "duplicate"),
    ("Sign up before you log in", "You log in after you sign up", "duplicate"),
]


@pytest.mark.parametrize(("one", "other", "difference"), CONTRADICTING)
def test_what_is_turned_around_is_a_contradiction(one: str, other: str, difference: str) -> None:
    for first, second in ((one, other), (other, one)):
        pair = found(first, second)
        assert pair is not None
        assert pair.kind == "contradiction"
        assert pair.difference is not None
        assert pair.difference.partition(":")[0] == difference


@pytest.mark.parametrize(("one", "other", "kind"), NOT_CONTRADICTING)
def test_what_says_the_same_is_none(one: str, other: str, kind: str | None) -> None:
    for first, second in ((one, other), (other, one)):
        pair = found(first, second)
        assert (pair and pair.kind) == kind


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        (
            "Migrated from MySQL to Postgres",
            "Migrated from Postgres to MySQL",
            "order: MySQL … Postgres / Postgres … MySQL",
        ),
        (
            "We moved last year from MySQL to Postgres",
            "Last year we moved to MySQL from Postgres",
            "order: from MySQL … to Postgres / to MySQL … from Postgres",
        ),
        ("latency >= 50 ms", "latency <= 50 ms", "limit: >= 50 / <= 50"),
        (
            "No less than 5 reviews",
            "No more than 5 reviews",
            "limit: no less than 5 / no more than 5",
        ),
        ("The light is on", "The light is off", "opposite: on / off"),
        ("Tests ✅", "Tests ❌", "opposite: ✅ / ❌"),
    ],
)
def test_the_difference_is_told(one: str, other: str, difference: str) -> None:
    pair = found(one, other)
    assert pair is not None
    assert pair.difference == difference


def test_order_is_seen_without_vectors() -> None:
    pair = found(
        "Migrated from MySQL to Postgres", "Migrated from Postgres to MySQL", vectors=False
    )
    assert pair is not None
    assert (pair.kind, pair.rule) == ("contradiction", "wording")


@pytest.mark.parametrize(("one", "other"), [("👍", "👎"), ("🎉🎉", "🎉"), ("!!", "??"), ("→", "←")])
def test_texts_without_a_word_are_the_same_only_where_they_are_equal(one: str, other: str) -> None:
    assert found(one, other) is None
    pair = found(one, one)
    assert pair is not None
    assert (pair.kind, pair.rule) == ("duplicate", "exact")


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("Lisbon", "Lisboa", True),
        ("London", "Londres", True),
        ("Italy", "Italia", True),
        ("Mariana", "Mariano", False),
        ("Madrid", "Malaga", False),
        ("GitLab", "GitHub", False),
        ("GraphQL", "Graphite", False),
        ("Postgres", "Postman", False),
        ("Node12", "Node14", False),
    ],
)
def test_names_in_two_languages(one: str, other: str, alike: bool) -> None:
    pair = found(f"The main office is in {one}", f"The main office is in {other}")
    assert pair is not None
    assert (pair.kind != "contradiction") is alike
