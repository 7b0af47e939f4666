"""The page that `reconet export --format web` writes, opened from the disk in a real browser."""

import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from reconet import Predictor
from reconet.cli import main
from reconet.data import open_dataset
from tests.serve.test_browser import BROWSER, DRIVER, QUIET


def test_it_is_for_fp32_and_for_folders_of_its_own(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").touch()
    assert main(["export", str(run), "--format", "web", "--out", str(tmp_path)]) == 2
    assert "holds other files" in capsys.readouterr().err
    assert main(["export", str(run), "--format", "web", "--int8"]) == 2
    assert "openvino" in capsys.readouterr().err


@pytest.mark.slow  # npm fetches the runtime
@pytest.mark.skipif(
    None in (BROWSER, DRIVER, shutil.which("npm")), reason="needs chromium, chromedriver and npm"
)
def test_a_page_from_the_disk_sees_what_the_network_sees(run: Path, tmp_path: Path) -> None:
    assert main(["export", str(run), "--format", "web", "--out", str(tmp_path / "page")]) == 0
    image_hwc = open_dataset("scenes", "val")[0].image_hwc
    cv2.imwrite(str(tmp_path / "scene.png"), image_hwc[..., ::-1])
    options = webdriver.ChromeOptions()
    for argument in ["headless", "no-sandbox", *(f"disable-{word}" for word in QUIET.split())]:
        options.add_argument(f"--{argument}")
    options.binary_location = str(BROWSER)
    browser = webdriver.Chrome(options, webdriver.ChromeService(str(DRIVER)))
    try:
        browser.get((tmp_path / "page" / "index.html").as_uri())
        state = browser.find_element(By.ID, "state")
        wait = WebDriverWait(browser, 60)
        wait.until(lambda _: state.text == "Choose an image.")
        browser.find_element(By.ID, "file").send_keys(str(tmp_path / "scene.png"))
        wait.until(lambda _: state.text.endswith(" ms"))
        found = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#legend li")]
        hosts = browser.execute_script("return performance.getEntriesByType('resource')")
    finally:
        browser.quit()
    assert all(entry["name"].startswith(("file:", "blob:", "data:")) for entry in hosts)
    shares = {line.rsplit(" ", 2)[0]: float(line.rsplit(" ", 2)[1]) for line in found}
    result = Predictor.from_run(run)(image_hwc)
    expected = {
        result.classes[k]: 100 * float(np.mean(result.label_hw == k))
        for k in np.unique(result.label_hw)
    }
    assert shares.keys() == expected.keys()
    assert all(abs(shares[name] - expected[name]) < 2 for name in shares)
