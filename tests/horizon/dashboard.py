# SPDX-License-Identifier: Apache-2.0
"""Horizon process, and a user who operates it with a browser."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import requests
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

_HERE = Path(__file__).parent
_EXAMPLES = _HERE.parents[1] / "examples"
INSTANCES = "/project/instances/"
_FIRST = (("Source", "tiny"), ("Flavor", "m1.tiny"))
_TIMEOUT_S = 60.0
_PAUSE_S = 0.1
_ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions"),
    *("--no-first-run", "--window-size=1400,1000"),
)


class Dashboard:
    """Horizon process. ``folder``: for its files; ``identity``: URL of Keystone."""

    def __init__(self, folder: Path, identity: str, port: int, *, networks: bool = False) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._log = (folder / "horizon.log").open("wb")
        self._environment = {
            **os.environ,
            "PYTHONPATH": f"{_HERE}:{_EXAMPLES}",
            "PYTHONWARNINGS": "ignore",
            "DJANGO_SETTINGS_MODULE": "dashboard_settings",
            "KILONOVA_HORIZON_FOLDER": str(folder),
            "KILONOVA_HORIZON_KEYSTONE": identity,
            "KILONOVA_HORIZON_NETWORKS": "yes" if networks else "no",
            "KILONOVA_HORIZON_SECRET": secrets.token_urlsafe(32),
        }
        for words in (("collectstatic", "--noinput", "-v0"), ("compress", "--force", "-v0")):
            self._started("django", *words).wait(timeout=300)
        application = "django.core.wsgi:get_wsgi_application()"
        # One worker process, because the cache is in its memory.
        self._process = self._started("gunicorn", "-w1", "--threads", "4", "-b", f"127.0.0.1:{port}", application)
        self._until_it_answers()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)
        self._log.close()

    def _started(self, module: str, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", module, *words], env=self._environment, stdout=self._log, stderr=self._log
        )

    def _until_it_answers(self) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                if requests.get(f"{self.url}/auth/login/", timeout=_TIMEOUT_S).ok:
                    return
            except requests.ConnectionError:
                pass
            assert time.monotonic() < deadline, Path(self._log.name).read_text(errors="replace")[-3000:]
            time.sleep(_PAUSE_S)


class User:
    """User with a separate browser."""

    def __init__(self, url: str) -> None:
        options = webdriver.ChromeOptions()
        for each in _ARGUMENTS:
            options.add_argument(each)
        options.binary_location = "/usr/bin/chromium"
        self._url = url
        self.browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        self.browser.set_page_load_timeout(_TIMEOUT_S)

    def sign_in(self, name: str, password: str) -> None:
        self.open("/auth/login/")
        self.fill("input[name=username]", name)
        self.fill("input[name=password]", password)
        self.click("#loginBtn")
        self.until(lambda: "/auth/login" not in self.browser.current_url, "the sign-in to succeed")

    def open(self, path: str) -> None:
        """Open a page, and assert that it is not an error page."""
        self.browser.get(self._url + path)
        assert "error" not in self.browser.title.lower(), (path, self.browser.title)

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until a condition holds, on a page that may change meanwhile."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                if condition():
                    return
            except StaleElementReferenceException:
                pass
            assert time.monotonic() < deadline, (what, self.browser.current_url, self.text()[:2000])
            time.sleep(_PAUSE_S)

    def text(self) -> str:
        return self.browser.find_element(By.TAG_NAME, "body").text

    def sees(self, *words: str) -> None:
        """Wait until all of these texts are on the page."""
        self.until(lambda: all(each in self.text() for each in words), f"the texts {words}")

    def shown(self, selector: str) -> list[WebElement]:
        return [each for each in self.browser.find_elements(By.CSS_SELECTOR, selector) if each.is_displayed()]

    def click(self, selector: str, text: str = "") -> None:
        """Click the first visible, enabled element that contains this text."""

        def clicked() -> bool:
            for each in self.shown(selector):
                if text in each.text and each.is_enabled():
                    each.click()
                    return True
            return False

        self.until(clicked, f"{selector} {text} to be clickable")

    def fill(self, selector: str, text: str) -> None:
        self.until(lambda: self.shown(selector), f"the field {selector}")
        (field,) = self.shown(selector)
        field.clear()
        field.send_keys(text)

    def choose(self, option: str) -> None:
        """Choose an entry of a list in a dialog, where Horizon covers the browser's list with buttons."""
        self.click(".modal-dialog .themable-select .dropdown-toggle")
        self.click(".modal-dialog .themable-select li a", option)

    def row(self, text: str) -> WebElement | None:
        """Return the table row that contains this text."""
        return next((each for each in self.shown("table tbody tr[data-object-id]") if text in each.text), None)

    def until_row(self, name: str, *words: str) -> None:
        """Wait until the row of a name also contains these words."""

        def so() -> bool:
            row = self.row(name)
            return row is not None and all(each in row.text for each in words)

        self.until(so, f"{words} in the row of {name}")

    def act(self, name: str, action: str) -> None:
        """Run an action of a row: its button, or an entry of its menu."""
        self.until(lambda: self.row(name), f"a row of {name}")
        row = self.row(name)
        assert row is not None
        selector = f"[id$=__action_{action}]"
        (button,) = row.find_elements(By.CSS_SELECTOR, selector)
        if not button.is_displayed():
            row.find_element(By.CSS_SELECTOR, ".dropdown-toggle").click()
            self.until(button.is_displayed, f"{action} in the menu")
        button.click()

    def submit(self) -> None:
        """Submit the form of a dialog, and wait until the dialog closes."""
        self.click(".modal-dialog .btn-primary")
        self.until(lambda: not self.shown(".modal-dialog"), "the dialog to close")

    def launch(self, name: str, *seen: tuple[str, str]) -> None:
        """Complete the launch wizard as far as necessary, and wait until the server is active.

        ``seen``: further steps, and what has been chosen there already.
        """
        self.open(INSTANCES)
        self.click("#instances__action_launch-ng")
        self.fill(".modal-dialog input[name=name]", name)
        for step, choice in _FIRST:
            self.click(".modal-dialog li.nav-item", step)
            self.until(lambda words=choice: self._offered(words), step)
            self._offered(choice)[0].find_element(By.CSS_SELECTOR, "button.fa-arrow-up").click()
        for step, choice in seen:
            self.click(".modal-dialog li.nav-item", step)
            self.until(lambda words=choice: any(words in each.text for each in self.shown(".modal-dialog tr")), step)
        self.click(".modal-dialog button.finish")
        self.until(lambda: not self.shown(".modal-dialog"), "the wizard to close")
        self.until_row(name, "Active", "Running")

    def _offered(self, choice: str) -> list[WebElement]:
        """Return the rows of the wizard's step that contain a text and can be chosen."""
        rows = [each for each in self.shown(".modal-dialog tr") if choice in each.text]
        return [each for each in rows if each.find_elements(By.CSS_SELECTOR, "button.fa-arrow-up")]
