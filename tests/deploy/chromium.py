"""A headless Chromium, driven over the two pipes of --remote-debugging-pipe."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time


class Chromium:
    """with Chromium() as browser: a page of its own. Commands wait for their answer."""

    def __init__(self):
        self.program = shutil.which("chromium") or shutil.which("chromium-browser")
        self.events = []
        self.number = 0

    def __enter__(self):
        self.profile = tempfile.mkdtemp(prefix="coat-chromium-")
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()
        self.log = open(os.path.join(self.profile, "log"), "wb")

        def use_pipes():  # Chromium reads 3 and writes 4
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reading, 3)
            os.dup2(writing, 4)
        self.process = subprocess.Popen(
            [self.program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--disable-dev-shm-usage", f"--user-data-dir={self.profile}/profile",
             "--remote-debugging-pipe", "about:blank"],
            stdout=self.log, stderr=self.log, preexec_fn=use_pipes, close_fds=False)
        os.close(to_browser)
        os.close(from_browser)
        self.stream = os.fdopen(self.answers, "rb", buffering=0)
        self.buffer = b""
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.stream.close()
        os.close(self.commands)
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.buffer:
            data = self.stream.read(65536)
            if not data:
                raise RuntimeError("Chromium ended: " + open(self.log.name).read()[-2000:])
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") != self.number:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            return answer["result"]

    def open(self, url, width, height, dark=False):
        """The page at this size and colour scheme; waits until it is loaded."""
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=url)
        end = time.monotonic() + 20
        while self.evaluate("document.readyState") != "complete":
            if time.monotonic() > end:
                raise RuntimeError(f"{url} does not load")
            time.sleep(0.05)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def press(self, key):
        code = {"Tab": 9, "Enter": 13}[key]
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode=code, **({"text": "\r"} if key == "Enter" else {}))

    def screenshot(self, path):
        height = self.evaluate("document.documentElement.scrollHeight")
        width = self.evaluate("document.documentElement.clientWidth")
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})["data"]
        path.write_bytes(base64.b64decode(data))

    def complaints(self):
        """Errors and warnings of the page, and requests for anything but the page itself."""
        found = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            elif method == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("data:", "about:")) and params.get("type") != "Document":
                    found.append("request for " + url)
        return found
