"""``datasette limbic tune``: what the log says of the parameters, and changing them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ..config import Settings
from ..errors import BadParameter
from .acting import by
from .common import reports_errors, takes_settings
from .printing import as_json
from .tune_modes import ANALYZE, BEFORE, ESTIMATES, SET, TUNE, WAYS, Asked, was_given, written

_DIGITS = 19
_MODES = ("analyze", "tune", "set_gamma", "set_beta", "rollback", "history")


class _Version(click.ParamType[Any]):
    """The number of a version, or none: then FILE may have got into its place."""

    name = "version"

    def convert(self, value: Any, param: Any, ctx: Any) -> str | int:
        if value == BEFORE:
            return BEFORE
        # as many digits as the highest one has: Python reads no number of thousands of them
        if not (str(value).isascii() and str(value).isdigit() and len(str(value)) <= _DIGITS):
            self.fail(
                f"{value!r:.60} is no number of a version: --history lists them, and FILE stands "
                "before --rollback",
                param,
                ctx,
            )
        return int(value)


@click.command("tune")
@click.argument("database", metavar="FILE", type=click.Path(dir_okay=False))
@click.option("--analyze", is_flag=True, help="Say what the log tells: the default")
@click.option("--tune", is_flag=True, help="Propose other values, or say why not")
@click.option("--apply", is_flag=True, help="With --tune: apply what is proposed, 10 % of the way")
@click.option("--set-gamma", metavar="X", help="Move gamma 10 % of the way to X, 0 to 10")
@click.option("--set-beta", metavar="Y", help="Move beta_sal 10 % of the way to Y, 0 to 10")
@click.option(
    "--rollback",
    is_flag=False,
    flag_value=BEFORE,
    type=_Version(),
    metavar="[VERSION]",
    help="Bring back the version before, or VERSION; 0: what configuration has",
)
@click.option("--history", is_flag=True, help="List all versions, newest first")
@click.option(
    "--gamma-range",
    metavar="VALUES",
    help="Values of gamma to try: 0.001,0.01,0.1, or low:high, or low:high:count  "
    "[default: 0.001:0.1:12]",
)
@click.option(
    "--beta-sal-range",
    metavar="VALUES",
    help="Values of beta_sal to try  [default: 0.1:1.5:12]",
)
@click.option("--k", metavar="K", default="10", show_default=True, help="Judge the first K results")
@click.option("--actor", metavar="NAME", help="Who changes it, for the log; default: the user")
@click.option("--json", "json_wanted", is_flag=True, help="The answer as JSON")
@reports_errors
@takes_settings
def tune_command(
    database: str, json_wanted: bool, actor: str | None, settings: Settings, **given: Any
) -> None:
    """Whether other values of beta_sal and gamma would rank better, and changing them.

    beta_sal is the weight of salience, gamma that of co-occurrence. Recorded searches, with what
    was opened and rated of them, say which values would have put what was used first. Often they
    do not say enough: then nothing is proposed, with the figure that was found and the one that is
    needed.

    \b
      datasette limbic tune memory.db            # or --analyze: all figures, and the verdict
      datasette limbic tune memory.db --tune     # the verdict alone
      datasette limbic tune memory.db --tune --apply
      datasette limbic tune memory.db --tune --gamma-range "0.001,0.01,0.05,0.1"
      datasette limbic tune memory.db --set-gamma 0.05 --set-beta 0.75
      datasette limbic tune memory.db --history
      datasette limbic tune memory.db --rollback     # or --rollback 3

    Nothing is changed but by --apply, by --set-gamma and --set-beta, which are your own word and
    need no log, and by --rollback. Each adds a version, which running servers rank by from their
    next search on. A change goes 10 % of the way, and 90 % stays: repeat it to go further. The
    same searches never decide twice.

    The exit code is 0 where nothing is proposed or applied, which is an answer: '--tune --apply'
    can run every week. It is 1 for errors, among them a version that somebody else put in force
    meanwhile.

    docs/tuning.md explains every figure.
    """
    asked = Asked(database, given, by(actor), settings)
    answer, text = WAYS[_mode(given)](asked)
    click.echo(as_json(answer) if json_wanted else "\n".join(text))


def _mode(given: Mapping[str, Any]) -> str:
    """What is asked for. Raises BadParameter for options that do not go together."""
    said: dict[str, str] = {}
    for name in _MODES:
        if given[name] is not None and given[name] is not False:  # 0 is a version
            # both ways to set a value are one mode
            said.setdefault(SET if name.startswith(SET) else name, written(name))
    if len(said) > 1:
        one, other = list(said.values())[:2]
        raise BadParameter(f"{one} and {other} are both given: use one of them")
    mode, chosen = next(iter(said.items()), (ANALYZE, None))
    if given["apply"] and mode != TUNE:
        raise BadParameter(
            "--apply applies what --tune proposes: "
            + (f"leave it out with {chosen}" if chosen else "say --tune --apply")
        )
    if mode not in (ANALYZE, TUNE):
        for name in ESTIMATES:
            if was_given(name):
                raise BadParameter(
                    f"{written(name)} is for --analyze and --tune: leave it out with {chosen}"
                )
    return mode
