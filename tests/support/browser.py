"""Debian's chromium, driven by selenium: a browser that people use, with nothing of it replaced."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait
from support.page import Server

_FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--lang=en",
]
_PATIENCE = 60  # seconds: on a machine that does much else


def programs() -> tuple[str, str] | None:
    """The browser and its driver, if both are there."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


def required_programs() -> tuple[str, str]:
    found = programs()
    if found is None:
        missing = (
            "no chromium and chromedriver here; as root on Debian: apt-get install chromium chromium-driver"
        )
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


class Browser:
    """One window of it."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, server: Server, path: str = "/") -> None:
        """With the token once, as somebody does who clicks on what `lading ui` printed."""
        self.driver.get("about:blank")
        self.complaints()  # of a page whose server has ended
        self.driver.get(server.url)
        self.wait(lambda: "token=" not in self.driver.current_url)
        self.go(server, path)

    def go(self, server: Server, path: str) -> None:
        self.driver.get(f"{server.origin}{path}")

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def link(self, words: str) -> WebElement:
        return self.driver.find_element(By.LINK_TEXT, words)

    def button(self, words: str) -> WebElement:
        return next(one for one in self.all("button") if one.text == words)

    def wait(self, until: Callable[[], Any]) -> Any:
        """For something to be so; gives it back."""
        from selenium.common.exceptions import WebDriverException

        ignored = (WebDriverException, StopIteration, AssertionError)
        return WebDriverWait(self.driver, _PATIENCE, 0.1, ignored_exceptions=ignored).until(lambda _: until())

    def text(self) -> str:
        return self.one("main").text

    def script(self, code: str, *values: Any) -> Any:
        return self.driver.execute_script(code, *values)

    def complaints(self) -> list[str]:
        """What the browser wrote to its console, since the last time."""
        return [one["message"] for one in self.driver.get_log("browser")]

    def colours(self, scheme: str) -> None:
        """`light` or `dark`, as the person has it."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def width(self, pixels: int, height: int = 900) -> None:
        size = {"width": pixels, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    program, driver = required_programs()
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = webdriver.Chrome(options=options, service=Service(driver))
    running.set_page_load_timeout(_PATIENCE)
    try:
        yield Browser(running)
    finally:
        running.quit()
