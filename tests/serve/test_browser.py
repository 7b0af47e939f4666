"""The page in a real browser: send an image, see an overlay, switch a rank off, see a change.

Screenshots are left in artefacts/serve, to be looked at.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.serve.helpers import EVIL, encode, image
from tests.serve.launch import ROOT, RunningServer

DRIVER = shutil.which("chromedriver")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
SHOTS = ROOT / "artefacts" / "serve"
QUIET = "gpu background-networking component-update sync dev-shm-usage default-apps"

pytestmark = pytest.mark.skipif(
    DRIVER is None or BROWSER is None,
    reason="no chromium and chromedriver here: apt-get install chromium chromium-driver",
)


class Page:
    """The page as a person finds it."""

    def __init__(self, browser: webdriver.Chrome, url: str) -> None:
        self.browser, self.url = browser, url
        self.size(1200, 900)
        browser.get(url)
        self.until(lambda: self.css("body")[0].get_attribute("data-ready") == "yes")

    def css(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def id(self, name: str) -> WebElement:
        return self.browser.find_element(By.ID, name)

    def until(self, true: Callable[[], object]) -> None:
        WebDriverWait(self.browser, 60, poll_frequency=0.1).until(lambda _: true())

    def open(self, file: Path) -> None:
        self.id("file").send_keys(str(file))
        self.explored()

    def explored(self) -> None:
        """Wait until the newest image and its ranks are there."""
        self.until(lambda: self.css("body")[0].get_attribute("data-explored"))
        assert self.id("changed").text == "All ranks are on."

    def canvas(self) -> str:
        """Return all pixels of the canvas."""
        pixels = self.browser.execute_script("return arguments[0].toDataURL()", self.id("canvas"))
        return str(pixels)

    def opacity(self, percent: int) -> None:
        slide = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))"
        self.browser.execute_script(slide, self.id("opacity"), percent)

    def log(self, kind: str) -> list[str]:
        lines = self.browser.get_log(kind)  # type: ignore[no-untyped-call]
        return [line["message"] for line in lines]

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def shoot(self, name: str) -> None:
        SHOTS.mkdir(parents=True, exist_ok=True)
        assert self.browser.save_screenshot(str(SHOTS / f"{name}.png"))

    def requested_hosts(self) -> set[str]:
        """Return every host that the browser has sent a request to."""
        events = [json.loads(line)["message"] for line in self.log("performance")]
        urls = [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return {urlsplit(url).netloc for url in urls if not url.startswith("data:")}


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER or ""
    for switch in [
        "headless=new",
        "no-sandbox",
        "no-first-run",
        *map("disable-{}".format, QUIET.split()),
    ]:
        options.add_argument(f"--{switch}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    one = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield one
    one.quit()


@pytest.fixture
def page(browser: webdriver.Chrome, server: RunningServer) -> Page:
    return Page(browser, server.url)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("images") / "scene.png"
    path.write_bytes(encode(image(1, (96, 144))))
    return path


def test_an_image_gives_an_overlay_and_a_rank_off_changes_it(page: Page, file: Path) -> None:
    page.shoot("1-empty")
    page.open(file)
    tinted = page.canvas()
    page.shoot("2-overlay")
    assert page.css("#legend li")
    page.opacity(0)
    assert page.canvas() != tinted  # so there was an overlay
    page.opacity(45)
    assert page.canvas() == tinted
    first = page.css("#switches button")[0]
    assert first.text == "2"  # by construction the rank that matters
    first.click()
    page.until(lambda: "pixels changed" in page.id("changed").text)
    assert not page.id("changed").text.startswith("0 of")
    assert first.get_attribute("aria-pressed") == "false"
    assert page.canvas() != tinted
    page.shoot("3-rank-off")
    page.id("all-on").click()
    page.until(lambda: page.canvas() == tinted)
    page.id("heat").click()
    page.until(lambda: page.canvas() != tinted)
    page.shoot("4-heat")
    assert page.requested_hosts() <= {urlsplit(page.url).netloc}
    assert page.log("browser") == []


def test_everything_can_be_done_with_keys(page: Page, file: Path) -> None:
    page.css("#examples button")[2].send_keys(Keys.ENTER)
    page.explored()
    page.open(file)
    before = page.canvas()
    canvas = page.id("canvas")
    canvas.send_keys(Keys.ARROW_RIGHT)
    canvas.send_keys(Keys.SHIFT, Keys.ARROW_DOWN)
    assert "at 73, 58" in page.id("reading").text
    assert "%" in page.id("reading").text
    page.css("#legend input")[0].send_keys(Keys.SPACE)
    assert page.canvas() != before
    page.css("#legend input")[0].send_keys(Keys.SPACE)
    page.id("kept").send_keys(Keys.HOME)  # none of the ranks
    page.until(lambda: "0 of 4 on" in page.id("kept-shown").text)
    page.until(lambda: "pixels changed" in page.id("changed").text)
    controls = page.css("button, input, canvas")
    nameless = [one.get_attribute("outerHTML") for one in controls if not one.accessible_name]
    assert nameless == []
    assert page.log("browser") == []


def test_it_fits_on_a_phone(page: Page, file: Path) -> None:
    page.size(360, 740)
    page.open(file)
    wide = page.browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= 360
    page.shoot("5-phone")
    page.css("#switches button")[0].click()
    page.until(lambda: "pixels changed" in page.id("changed").text)
    frame = page.id("frame")
    top = page.browser.execute_script("return arguments[0].getBoundingClientRect().top", frame)
    assert top >= 0  # the image is in sight while its ranks are switched
    page.shoot("6-phone-ranks")


def test_problems_are_shown_in_the_page_and_names_are_only_text(page: Page, tmp_path: Path) -> None:
    garbage = tmp_path / f"{EVIL.replace('/', '')}.png"
    garbage.write_bytes(b"garbage")
    page.id("file").send_keys(str(garbage))
    page.until(lambda: "cannot read the image" in page.id("problem").text)
    large = tmp_path / "large.png"
    large.write_bytes(bytes(3_000_000))
    page.id("file").send_keys(str(large))
    page.until(lambda: "at most 2.0 MB" in page.id("problem").text)
    page.shoot("7-problem")
    page.css("#examples button")[0].click()
    page.explored()
    assert not page.id("problem").is_displayed()
    listed = page.id("legend").text + page.id("absent").text
    assert EVIL in listed
    assert not page.css("#legend img, #absent img, #reading img")
    messages = page.log("browser")
    assert all("422" in line for line in messages), messages  # chromium notes the status itself
