"""A headless Chromium for tests, and the check of a page for those who read it by other means than sight."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support import expected_conditions as expected
from selenium.webdriver.support.ui import WebDriverWait

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage --no-first-run
--hide-scrollbars --disable-background-networking --disable-component-update --disable-sync"""
PATIENCE = 60
"""Seconds; the first question loads the embedder."""

needs_browser = pytest.mark.skipif(not (BROWSER and DRIVER), reason="there is no Chromium, or no chromedriver")


@contextmanager
def open_browser(width: int = 1200, height: int = 900, *, home: Path | None = None) -> Iterator[Page]:
    """Open a browser with a window of this size; in a home of its own, if one is given."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in (*FLAGS.split(), f"--window-size={width},{height}"):
        options.add_argument(flag)
    if home is not None:
        options.add_argument(f"--user-data-dir={home / 'browser'}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    environment = os.environ | ({} if home is None else {"HOME": str(home)})
    driver = webdriver.Chrome(options, Service(DRIVER, env=environment))
    try:
        yield Page(driver)
    finally:
        driver.quit()


class Page:
    """A page in a browser, as a person uses it."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        # Between two pages, an element may belong to the former one.
        self.driver, self._wait = driver, WebDriverWait(driver, PATIENCE, ignored_exceptions=[WebDriverException])

    def find(self, selector: str) -> WebElement:
        """Wait for an element."""
        element: WebElement = self._wait.until(expected.presence_of_element_located((By.CSS_SELECTOR, selector)))
        return element

    def click(self, text: str, inside: str = "body") -> None:
        """Click the link or button with this text, once it can be clicked."""
        path = f".//*[self::a or self::button or self::summary][normalize-space(.)={text!r}]"
        place = self.find(inside)
        self._wait.until(lambda _: [one for one in place.find_elements(By.XPATH, path) if one.is_displayed()])
        next(one for one in place.find_elements(By.XPATH, path) if one.is_displayed()).click()

    def fill(self, selector: str, text: str) -> None:
        """Type a text into a field, in place of what stands there."""
        field = self.find(selector)
        field.clear()
        field.send_keys(text)

    def see(self, text: str, where: str = "main") -> None:
        """Wait until a text stands in an element."""
        self._wait.until(expected.text_to_be_present_in_element((By.CSS_SELECTOR, where), text))

    def read_text(self, where: str = "main") -> str:
        """Read an element's text as it is seen."""
        return self.find(where).text

    def set_colors(self, scheme: str) -> None:
        """Prefer ``light`` or ``dark`` pages."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def take_picture(self, path: Path, height: int | None = None) -> None:
        """Save a picture of the page as high as it is, or of its first ``height`` pixels."""
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], height or 20_000), "scale": 1}
        picture = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        path.write_bytes(base64.b64decode(picture["data"]))

    def list_complaints(self) -> list[str]:
        """List what the browser's console complains of: scripts and styles that a policy stopped, and errors."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def list_barriers(self) -> list[str]:
        """List what axe finds that keeps somebody from using the page, if it is serious."""
        axe = resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
        self.driver.execute_script(axe)
        result: dict[str, Any] = self.driver.execute_async_script(
            "axe.run(document, {resultTypes: ['violations']}).then(arguments[arguments.length - 1])"
        )
        return [
            f"{violation['id']}: {node['html'][:200]}"
            for violation in result["violations"]
            if violation["impact"] in ("serious", "critical")
            for node in violation["nodes"]
        ]
