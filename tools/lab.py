"""JupyterLab in a headless Chromium: tests/browser and tools/screenshot.py drive it."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Locator, Route, sync_playwright

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")  # names of the command
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SETTINGS = {  # every cell in the page at once; no questions, no news
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
PATIENCE = 60  # seconds to wait for anything that happens at once
SECONDS = 300  # for a notebook to run, and for the translator to be trained where there is none
ERROR = re.compile(rb'"msg_type": "error".*("ename".*)}', re.DOTALL)  # a message from a kernel
PANEL = "jupyterapp.shell.currentWidget"


def find_chromium() -> str | None:
    """Return the path of the system's Chromium, or None."""
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


@contextmanager
def chromium(path: str) -> Iterator[Browser]:
    """Run a headless Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """Serve a folder in a JupyterLab of its own, on a free port; yield its address.

    It knows no settings, kernels or progress of the user; the kernels find no way to the network.
    """
    with socket.socket() as free, tempfile.TemporaryDirectory() as home:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        for name, settings in SETTINGS.items():
            file = Path(home, "settings", "@jupyterlab", f"{name}.jupyterlab-settings")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(settings), encoding="utf-8")
        nowhere = "http://127.0.0.1:9"
        environment = {
            "JUPYTER_CONFIG_DIR": f"{home}/config",
            "JUPYTER_DATA_DIR": f"{home}/data",
            "JUPYTER_RUNTIME_DIR": f"{home}/runtime",
            "JUPYTERLAB_SETTINGS_DIR": f"{home}/settings",
            "JUPYTERLAB_WORKSPACES_DIR": f"{home}/workspaces",
            "D2L_MINI_PROGRESS": f"{home}/progress",
            "http_proxy": nowhere,
            "https_proxy": nowhere,
            "no_proxy": "127.0.0.1,localhost",
        }
        token, log = secrets.token_hex(), Path(home, "log")
        address = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
        command += [f"--ServerApp.root_dir={folder}", f"--IdentityProvider.token={token}"]
        command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
        command += ["--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None"]
        with log.open("wb") as file:
            server = subprocess.Popen(
                command, env=os.environ | environment, stdout=file, stderr=subprocess.STDOUT
            )
        try:
            while not answers(f"{address}/api/status?token={token}"):
                if server.poll() is not None:
                    raise RuntimeError(
                        f"JupyterLab did not start:\n{log.read_text(encoding='utf-8')}"
                    )
                time.sleep(0.1)
            yield f"{address}/lab?token={token}"
        finally:
            server.terminate()
            server.wait()


def answers(url: str) -> bool:
    """Whether a server is there."""
    try:
        with urllib.request.urlopen(url):
            return True
    except OSError:
        return False


class Notebook:
    """A notebook in JupyterLab, in a page of its own.

    faults  what went wrong so far: requests to other hosts, which are refused, and errors of the
            page and of the kernel, those in the callbacks of controls too
    """

    def __init__(self, browser: Browser, address: str, name: str):
        self.faults: list[str] = []
        self.page = browser.new_page(viewport={"width": 1280, "height": 1000})
        self.page.set_default_timeout(1000 * PATIENCE)
        self.page.route(is_elsewhere, self._refuse)
        self.page.on("console", self._read_console)
        self.page.on("pageerror", lambda error: self.faults.append(f"page: {error}"))
        self.page.on("websocket", lambda socket: socket.on("framereceived", self._read_message))
        workspace = Path(name).stem  # its own, or JupyterLab would open what was there before
        self.page.goto(address.replace("/lab?", f"/lab/workspaces/{workspace}/tree/{name}?"))
        self.page.wait_for_function(f"window.jupyterapp && {PANEL}?.sessionContext")
        self.page.evaluate(f"{PANEL}.sessionContext.ready")

    def _refuse(self, route: Route) -> None:
        self.faults.append(f"request to {route.request.url[:200]}")
        route.abort()

    def _read_console(self, message) -> None:
        if message.type == "error":
            self.faults.append(f"console: {message.text}")

    def _read_message(self, frame: str | bytes) -> None:
        frame = frame.encode() if isinstance(frame, str) else frame
        if error := ERROR.search(frame):
            self.faults.append(f"kernel: {error[1].decode()}")

    def run(self) -> None:
        """Run all cells, and wait for their end."""
        self.page.evaluate(
            "() => {jupyterapp.commands.execute('notebook:run-all-cells')"
            ".finally(() => {window.hasRun = true})}"
        )
        self.page.wait_for_function("window.hasRun", timeout=1000 * SECONDS)

    def close(self) -> None:
        """End the kernel and close the page."""
        self.page.evaluate(f"{PANEL}.sessionContext.shutdown()")
        self.page.close()

    @property
    def views(self) -> Locator:
        """The interactive views."""
        return self.page.locator(".jp-OutputArea-output > .widget-vbox")

    def set_size(self, width: int, height: int) -> None:
        """Set the window's size; in a narrow one the list of files is closed."""
        self.page.set_viewport_size({"width": width, "height": height})
        files = self.page.locator("#jp-left-stack")
        if files.is_visible() == (width < 1000):
            self.page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
        files.wait_for(state="hidden" if width < 1000 else "visible")

    def set_theme(self, name: str) -> None:
        """Change to a theme such as "JupyterLab Dark"."""
        self.page.evaluate(
            "name => jupyterapp.commands.execute('apputils:change-theme', {theme: name})", name
        )
        self.page.wait_for_function(
            "name => document.body.dataset.jpThemeName === name"
            " && !document.querySelector('#jupyterlab-splash')",
            arg=name,
        )


def is_elsewhere(url: str) -> bool:
    """Whether a request for this address would leave the machine."""
    parts = urlsplit(url)
    return parts.scheme in ("http", "https", "ws", "wss") and parts.hostname != "127.0.0.1"
