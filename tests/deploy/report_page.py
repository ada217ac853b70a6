"""What the HTML report of a job must be in a real browser: complete, quiet, readable on a phone, in the
dark and by keyboard."""
import chromium
import support

SECTIONS = ["Training", "Memory", "FP8 health", "Optimizer moments", "Events", "Job file"]
CHARTS = ["Loss", "Learning rate", "first moment", "second moment"]
LOOKS = {"light": (1000, 1400, False), "dark": (1000, 1400, True), "phone": (420, 900, False),
         "phone-dark": (420, 900, True)}
# Of text and its background, by WCAG 2.
CONTRAST = """(() => {
  const light = c => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255).map(
      x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
  const ground = e => { for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (!/, 0\\)|transparent/.test(c)) return c; }
    return "rgb(255, 255, 255)"; };
  let least = 21;
  for (const e of document.querySelectorAll("p, th, td, span, b, summary, a, h1, h2, figcaption")) {
    if (!e.textContent.trim() || !e.getClientRects().length) continue;
    const a = light(getComputedStyle(e).color), b = light(ground(e));
    least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  return least; })()"""
# Where the focus is: a link's target, a summary's text, a region's label.
FOCUS = """(() => { const e = document.activeElement;
  return e === document.body ? "" : e.getAttribute("aria-label") || e.getAttribute("href") ||
      e.textContent.trim(); })()"""


def check(test, page):
    """`test`: the calling TestCase; `page`: path of the report. Screenshots go to the tools' folder."""
    shots = support.TOOLS / "screenshots"
    shots.mkdir(parents=True, exist_ok=True)
    with chromium.Chromium() as browser:
        for look, (width, height, dark) in LOOKS.items():
            browser.open(page.as_uri(), width, height, dark)
            test.assertEqual(browser.complaints(), [], look)
            test.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), width, look)
            test.assertGreaterEqual(browser.evaluate(CONTRAST), 4.5, look)
            browser.screenshot(shots / f"report-{look}.png")
        test.assertEqual(
            browser.evaluate("[...document.querySelectorAll('h2')].map(e => e.textContent)"), SECTIONS)
        captions = browser.evaluate(
            "[...document.querySelectorAll('figcaption')].map(e => e.textContent).join('|')")
        for chart in CHARTS:
            test.assertIn(chart, captions)
        empty = browser.evaluate(
            "[...document.querySelectorAll('.plot path.line, .plot path.area')]"
            ".filter(e => e.getBoundingClientRect().width < 20).length")
        test.assertEqual(empty, 0, "curves without extent")
        test.assertGreater(browser.evaluate("document.querySelectorAll('.plot path.line').length"), 2)
        check_keyboard(test, browser, page)


def check_keyboard(test, browser, page):
    browser.open(page.as_uri(), 1000, 1400)
    focused = []
    for _ in range(60):
        browser.press("Tab")
        name = browser.evaluate(FOCUS)
        if not name or (focused and browser.evaluate("document.activeElement.className == 'skip'")):
            break  # once around
        focused.append(name)
        outline = browser.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        test.assertEqual(outline, "solid", f"no visible focus on {name}")
        if browser.evaluate("document.activeElement.tagName") == "SUMMARY":
            browser.press("Enter")
            test.assertTrue(browser.evaluate("document.activeElement.parentElement.open"), name)
    test.assertEqual(focused[0], "#training", "the first stop skips to the curves")
    for region in ("Steps", "FP8 health", "Events, oldest first", "Job file"):
        test.assertIn(region, focused)
