"""What a person sees in ``adk web``: the services are on ``neo4j://``, and only the agent's ``.env`` says where."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from google.genai import types
from neo4j import GraphDatabase
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support import expected_conditions as expected
from tests.support import browser
from tests.support.adk_server import answered, remembered, started, write_agent
from tests.support.browser import PATIENCE, needs_browser
from tests.support.fake_gemini import FakeGemini, preloaded, said

from adk_graph_memory import Neo4jSessionService

pytestmark = [pytest.mark.slow, needs_browser]


class Page(browser.Page):
    """``adk web`` in a browser, as a person uses it."""

    def open(self, url: str) -> None:
        self.driver.get(url)
        self._click("//mat-dialog-container//button[contains(., 'No Thanks')]")
        self._wait.until(expected.invisibility_of_element_located((By.CSS_SELECTOR, "mat-dialog-container")))

    def choose(self, agent: str) -> None:
        self._click("//button[contains(@class, 'selector-button')][contains(., 'Select an app')]")
        self._click(f"//button[contains(@class, 'app-selector-item')][contains(., '{agent}')]")

    def say(self, words: str) -> None:
        box = self._wait.until(expected.element_to_be_clickable((By.CSS_SELECTOR, "textarea.chat-input-box")))
        box.send_keys(words)
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        box.send_keys(Keys.ENTER)
        self._wait.until(lambda _: not box.get_attribute("value"))

    def start_session(self) -> None:
        self._click("//button[contains(., 'New Session')]")
        self._wait.until(expected.invisibility_of_element_located((By.CSS_SELECTOR, "app-event-row")))

    def tab(self, name: str) -> None:
        self._click(f"//div[@role='tab'][contains(., '{name}')]")

    def list_sessions(self) -> None:
        self._click("//div[contains(@class, 'toolbar-session-group')]//button[contains(@class, 'selector-button')]")

    def texts(self, where: str) -> list[str]:
        return [element.text for element in self.driver.find_elements(By.CSS_SELECTOR, where)]

    def _click(self, path: str) -> None:
        found: WebElement = self._wait.until(expected.element_to_be_clickable((By.XPATH, path)))
        found.click()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with browser.open_browser(1400, 900, home=tmp_path) as opened:
        yield Page(opened.driver)
        opened.driver.save_screenshot(str(tmp_path / "page.png"))


@pytest.fixture
def gemini() -> Iterator[FakeGemini]:
    with FakeGemini(answered) as fake:
        yield fake


@pytest.fixture
def agent(app_name: str) -> str:
    return app_name.replace("-", "_")


@pytest.fixture
def serving(
    neo4j_server: Any, gemini: FakeGemini, agent: str, tmp_path: Path
) -> Callable[[], AbstractContextManager[Any]]:
    """Two agents, one of which has a ``.env``: so one has to be chosen, and nothing else says where the database is."""
    agents = tmp_path / "agents"
    write_agent(agents, "somebody_else")
    (username, password), env = neo4j_server.auth, write_agent(agents, agent) / ".env"
    env.write_text(f"NEO4J_URI={neo4j_server.uri}\nNEO4J_USERNAME={username}\nNEO4J_PASSWORD='{password}'\n")
    return lambda: started("web", agents, "neo4j://?model=rules", gemini.environment)


def test_what_was_said_is_recalled_in_a_new_session(
    serving: Callable[[], Any], page: Page, agent: str, gemini: FakeGemini, neo4j_server: Any
) -> None:
    with serving() as (url, _), GraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as driver:
        page.open(url)
        page.choose(agent)
        page.say("My dog is called Rex.")
        page.see("I heard: My dog is called Rex.", ".chat-messages")
        page.say("Please note down that we need oats.")
        page.see("Artifact: note.txt", ".chat-messages")
        page.tab("Artifacts")
        page.see("buy oats", "app-side-panel")
        assert "My dog is called Rex." in page.texts(".chat-messages .role-user")
        wait_until(lambda: sum(remembered(driver, agent).values()) == 4)

        page.start_session()
        page.say("What is my dog called?")
        page.see("load_memory", ".chat-messages")
        page.see('"text": "My dog is called Rex."', ".chat-messages")
        page.list_sessions()
        page.see("What is my dog called?", ".session-item")
        assert [text.splitlines()[0] for text in page.texts(".session-item")] == [
            "What is my dog called?",
            "My dog is called Rex.",
        ]
    [asked] = [request for request in gemini.requests if said(request) == "What is my dog called?"]
    assert "My dog is called Rex." in preloaded(asked)


async def test_a_page_that_outlived_its_server_shows_its_session_though_no_agent_is_loaded(
    serving: Callable[[], Any], page: Page, agent: str, neo4j_server: Any
) -> None:
    async with Neo4jSessionService(settings=neo4j_server.settings()) as sessions:
        session = await sessions.create_session(app_name=agent, user_id="user", session_id="monday")
        words = types.Content(role="user", parts=[types.Part(text="My dog is called Rex.")])
        await sessions.append_event(session, Event(author="user", content=words))
    with serving() as (url, _):
        page.open(f"{url}/dev-ui/?app={agent}&userId=user&session=monday")
        page.see("My dog is called Rex.", ".chat-messages")


def wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(10 * PATIENCE):
        if is_so():
            return
        time.sleep(0.1)
    raise TimeoutError
