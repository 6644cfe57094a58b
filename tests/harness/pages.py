"""The console in a real Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import TimeoutException, WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from deploy.local.process import binary

AXE = Path(__file__).parent / "axe" / "axe.min.js"
#: Without the flags about networking, Chromium asks its maker's hosts at each start.
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: Seconds; the machine may be busy.
_LIMIT = 180


class ConsolePages:
    """One browser at one master's console; ``base`` is its address."""

    def __init__(self, driver: webdriver.Chrome, base: str) -> None:
        self.driver = driver
        self._base = base

    def open(self, page: str) -> None:
        self.driver.get(f"{self._base}/{page}")

    @property
    def text(self) -> str:
        return self.driver.find_element(By.TAG_NAME, "main").text

    def wait_for(self, words: str) -> None:
        """Waits until the page has the words, without loading it again."""
        self._wait_for(words, lambda _: words in self.text, 0.5)

    def wait_reloading(self, words: str) -> None:
        def shown(_: object) -> bool:
            self.driver.refresh()
            return words in self.text

        self._wait_for(words, shown, 2)

    def _wait_for(self, words: str, shown: Callable[[object], bool], step: float) -> None:
        """While a page loads, or is replaced by its next state, it may have no text."""
        wait = WebDriverWait(self.driver, _LIMIT, step, ignored_exceptions=[WebDriverException])
        try:
            wait.until(shown)
        except TimeoutException:
            raise AssertionError(f"{words!r} is not on the page {self.driver.current_url}:\n{self.text}") from None

    def fill(self, **fields: str) -> None:
        for name, value in fields.items():
            field = self._element(f"#{name.replace('_', '-')}")
            if field.tag_name == "select":
                Select(field).select_by_value(value)
            else:
                field.clear()
                field.send_keys(value)

    def click(self, selector: str) -> None:
        element = self._element(selector)
        # The driver itself scrolls no further than to the window's edge, where the page's bar is.
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def follow(self, text: str) -> None:
        """Clicks the link or button; a live page may replace it at this moment."""

        def clicked(_: object) -> bool:
            self.driver.find_element(By.LINK_TEXT, text).click()
            return True

        WebDriverWait(self.driver, _LIMIT, ignored_exceptions=[WebDriverException]).until(clicked, f"no link {text!r}")

    def confirm(self) -> None:
        self.click("#confirm")
        self.wait_for("Event log")

    def violations(self) -> list[str]:
        """What axe finds, in both themes."""
        self.driver.execute_script(AXE.read_text())
        found = []
        for theme in ("light", "dark"):
            self.driver.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
            report: Any = self.driver.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
            found += [
                f"{theme}: {one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}" for one in report["violations"]
            ]
        self.driver.execute_script("document.documentElement.dataset.theme = 'light'")
        return found

    def picture(self, path: Path, *, width: int = 1280, most: int = 1600) -> None:
        self.driver.set_window_size(width, 800)
        height = self.driver.execute_script("return document.documentElement.scrollHeight")
        self.driver.set_window_size(width, min(most, max(700, height + 140)))
        self.driver.save_screenshot(str(path))
        self.driver.set_window_size(1280, 900)

    def complaints(self) -> list[str]:
        """What the browser's own log has, such as a violated policy."""
        return [one["message"] for one in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def _element(self, selector: str) -> WebElement:
        wait = WebDriverWait(self.driver, _LIMIT)
        return wait.until(lambda driver: driver.find_element(By.CSS_SELECTOR, selector), f"no {selector}")


@contextmanager
def console_pages(address: str) -> Iterator[ConsolePages]:
    options = webdriver.ChromeOptions()
    options.binary_location = binary("chromium")
    for argument in _ARGUMENTS:
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(binary("chromedriver")))
    try:
        driver.set_window_size(1280, 900)
        driver.set_script_timeout(_LIMIT)
        yield ConsolePages(driver, f"http://{address}/console")
    finally:
        driver.quit()
