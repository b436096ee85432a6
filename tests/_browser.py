"""Chromium, to see what a reader sees: what a page asks for, what scripts say, how wide it is, what axe finds."""

import dataclasses
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

VARIANTS = [(width, height, scheme) for width, height in ((360, 800), (1280, 900)) for scheme in ("light", "dark")]


@dataclasses.dataclass
class Seen:
    """What a page did: requests beyond its own file, messages, pixels beyond the width, axe's violations."""

    requests: list[str]
    messages: list[str]
    beyond: int
    violations: list[tuple[str, str]]

    @property
    def is_clean(self) -> bool:
        return not (self.requests or self.messages or self.beyond > 0 or self.violations)


def chromium() -> Iterator[Any]:
    """A browser. Without Chromium the tests are skipped; on a machine that checks changes (CI is set) they fail."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        said = "Chromium is not installed (Debian's package `chromium`): no page was looked at"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(said)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def look(browser: Any, file: Path, width: int, height: int, scheme: str, *, shot: Path | None = None) -> Seen:
    """Open the file at this size and in this colour scheme, with every `<details>` open, and tell what was seen."""
    from axe_playwright_python.sync_playwright import Axe

    own = file.resolve().as_uri()
    requests: list[str] = []
    messages: list[str] = []
    # The page's own policy would keep axe's script out.
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, bypass_csp=True)
    try:
        page = context.new_page()
        page.on("request", lambda r: None if r.url.startswith((own, "data:")) else requests.append(r.url))
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.goto(own)
        if shot is not None:
            page.screenshot(path=str(shot), full_page=True)
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
        beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        found = Axe().run(page).response["violations"]
        violations = [(v["id"], v["nodes"][0]["html"]) for v in found]
        return Seen(requests, messages, beyond, violations)
    finally:
        context.close()
