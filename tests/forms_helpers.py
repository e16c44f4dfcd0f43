"""Forms as a browser without JavaScript fills them in and sends them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from review_helpers import cookies
from test_views_feedback import FORM
from view_helpers import AGENT, ONE_POINT_ZERO

Pair = tuple[str, str]


@dataclass
class Control:
    """One field: ``options`` of a select, ``on`` of a box."""

    name: str
    kind: str
    value: str
    on: bool = True
    options: list[Pair] = field(default_factory=list)


@dataclass
class Button:
    label: str
    name: str | None
    value: str
    action: str | None


@dataclass
class Form:
    """A form of a page, with what stands in it."""

    action: str
    id: str | None = None
    controls: list[Control] = field(default_factory=list)
    buttons: list[Button] = field(default_factory=list)

    def control(self, name: str, value: str | None = None) -> Control:
        """A field by name; a box by its value too."""
        [found] = [
            c for c in self.controls if c.name == name and (value is None or c.value == value)
        ]
        return found

    def value(self, name: str) -> str:
        return self.control(name).value

    def names(self) -> set[str]:
        return {control.name for control in self.controls}

    def fill(self, **values: str) -> Form:
        """Type into fields and choose from lists; ``_`` for the dots of a name."""
        for given, value in values.items():
            name = given if given in self.names() else given.replace("_", ".")
            control = self.control(name)
            if control.kind == "select":
                assert value in [v for v, _ in control.options], (name, value)
            control.value = value
        return self

    def tick(self, name: str, value: str = "1", on: bool = True) -> Form:
        """Tick a box, or choose one of several with the same name."""
        control = self.control(name, value)
        if control.kind == "radio":
            for other in self.controls:
                if other.name == name and other.kind == "radio":
                    other.on = False
        control.on = on
        return self

    def sent(self, label: str) -> tuple[str, list[Pair]]:
        """Where the button of that label sends it, and the fields."""
        [button] = [b for b in self.buttons if b.label.startswith(label)]
        pairs = [(c.name, re.sub("\r?\n", "\r\n", c.value)) for c in self.controls if c.on]
        if button.name:
            pairs.append((button.name, button.value))
        return button.action or self.action, pairs


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.owned: list[tuple[str, Control]] = []
        self.open: Form | None = None
        self.control: Control | None = None
        self.button: Button | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given: dict[str, Any] = dict(attrs)
        if tag == "form":
            assert self.open is None, "a form in a form"
            self.open = Form(given["action"], given.get("id"))
            self.forms.append(self.open)
        elif tag in ("input", "select", "textarea"):
            kind = given.get("type", "text") if tag == "input" else tag
            value = given.get("value") or ""
            if kind not in ("hidden", "textarea", "select"):
                value = re.sub("[\r\n]", "", value)
            on = "checked" in given if kind in ("checkbox", "radio") else True
            control = Control(given.get("name", ""), kind, value, on)
            if tag != "input":
                self.control = control
            if "form" in given:
                self.owned.append((given["form"], control))
            elif self.open is not None:
                self.open.controls.append(control)
        elif tag == "option" and self.control is not None:
            self.control.options.append((given["value"], ""))
            if "selected" in given or len(self.control.options) == 1:
                self.control.value = given["value"]
        elif tag == "button" and self.open is not None:
            self.button = Button(
                "", given.get("name"), given.get("value") or "", given.get("formaction")
            )
            self.open.buttons.append(self.button)

    def handle_data(self, data: str) -> None:
        if self.button is not None:
            self.button.label += data
        elif self.control is not None and self.control.options:
            value, text = self.control.options[-1]
            self.control.options[-1] = (value, text + data)
        elif self.control is not None and self.control.kind == "textarea":
            self.control.value += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self.open = None
        elif tag == "button":
            self.button = None
        elif tag in ("select", "textarea") and self.control is not None:
            if tag == "textarea":
                self.control.value = self.control.value.removeprefix("\n")
            self.control = None


def forms(html: str, action: str = "") -> list[Form]:
    """The forms of our part of a page that post to an address which ends so."""
    parser = _Parser()
    parser.feed(html.split("<h1", 1)[1].split("<footer")[0])
    for owner, control in parser.owned:
        [form] = [each for each in parser.forms if each.id == owner]
        form.controls.append(control)
    return [each for each in parser.forms if each.action.endswith(action)]


def one(html: str, action: str) -> Form:
    [found] = forms(html, action)
    return found


async def press(datasette: Any, form: Form, label: str, *, actor: Any = AGENT) -> Any:
    """Send a form with one of its buttons."""
    url, pairs = form.sent(label)
    await datasette.invoke_startup()
    sent = cookies(datasette, actor)
    if not ONE_POINT_ZERO:
        # the page was looked at with another cookie: the two must be one
        pairs = [(n, sent["ds_csrftoken"] if n == "csrftoken" else v) for n, v in pairs]
    content = urlencode(pairs).encode()
    assert len(content) < 1024 * 1024
    headers = {
        "content-type": FORM,
        "accept": "text/html,*/*",
        "sec-fetch-site": "same-origin",
    }
    return await datasette.client.post(url, content=content, headers=headers, cookies=sent)
