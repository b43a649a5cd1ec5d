"""When tokens came, and what the server counts."""

from __future__ import annotations

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.browser.reader import Reader, until
from tests.browser.scripted import END, Script, ScriptedServer, answer, came, measured, said

QUANTILE = (
    'return import("/metrics.js").then(({ Counts }) =>'
    " new Counts(arguments[0]).quantile('time_to_first_token_seconds', arguments[1]));"
)
COUNTS = """\
# HELP flare_output_tokens_total Tokens emitted.
# TYPE flare_output_tokens_total counter
flare_output_tokens_total 120.0
flare_lanes_active 3.0
flare_slots 16.0
flare_requests_waiting 2.0
flare_cache_pages 512.0
flare_cache_pages_free 400.0
flare_cache_pages_idle 24.0
flare_prefix_lookups_total{stop="end"} 9.0
flare_prefix_asked_tokens_total 200.0
flare_prefix_reused_tokens_total 50.0
flare_time_to_first_token_seconds_bucket{le="0.1"} 2.0
flare_time_to_first_token_seconds_bucket{le="0.2"} 8.0
flare_time_to_first_token_seconds_bucket{le="0.4"} 10.0
flare_time_to_first_token_seconds_bucket{le="+Inf"} 10.0
flare_time_to_first_token_seconds_count 10.0
"""
INKED = """
const canvas = document.querySelector(".strip");
const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
const heights = [];
for (let token = 0; token < arguments[0]; token += 1) {
  let height = 0;
  for (let y = 0; y < canvas.height; y += 1) {
    height += data[4 * (y * canvas.width + 8 * token + 3) + 3] > 0;
  }
  heights.push(height);
}
return heights;
"""


def timed(reader: Reader, scripted: ScriptedServer) -> None:
    """An answer of five tokens, the fourth a slow one."""
    end = measured(enqueued_ms=1000, prompt=20, reused=16)
    scripted.plan(Script(steps=[said("One"), came(1040, 1050, 1060, 1100, 1110), end, END]))
    reader.send("Count")
    reader.growth()


def test_the_strip_tells_each_tokens_time(play_reader: Reader, scripted: ScriptedServer) -> None:
    timed(play_reader, scripted)
    whole = "5 tokens · 17.5 ms each · first after 40.0 ms · 20 in the prompt, 16 reused"
    assert play_reader.text(".times-text") == whole
    first, second, third, slow, last, none = play_reader.run(INKED, 6)
    assert second == third == last < slow == first
    assert none == 0
    strip = play_reader.one(".strip")
    while play_reader.focused() != strip:
        play_reader.press(Keys.SHIFT + Keys.TAB)
    assert play_reader.text(".times-text") == "Token 1 of 5, id 100: 40.0 ms"
    play_reader.press(Keys.ARROW_RIGHT * 3)
    assert strip.get_attribute("aria-valuetext") == "Token 4 of 5, id 103: 40.0 ms"
    assert strip.get_attribute("aria-valuenow") == "4"
    play_reader.press(Keys.END)
    assert play_reader.text(".times-text") == "Token 5 of 5, id 104: 10.0 ms"
    play_reader.press(Keys.TAB)
    assert play_reader.text(".times-text") == whole


def test_the_pointer_picks_a_token(play_reader: Reader, scripted: ScriptedServer) -> None:
    timed(play_reader, scripted)
    strip = play_reader.one(".strip")
    to_third = round(8 * 2.5 - strip.size["width"] / 2)
    ActionChains(play_reader.browser).move_to_element_with_offset(strip, to_third, 0).perform()
    assert play_reader.text(".times-text") == "Token 3 of 5, id 102: 10.0 ms"


def test_the_strip_is_drawn_again_for_the_dark(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    timed(play_reader, scripted)
    drawn = "return document.querySelector('.strip').toDataURL()"
    light = play_reader.run(drawn)
    play_reader.prefer(color_scheme="dark")
    until(lambda: play_reader.run(drawn) != light, what="another strip")


def test_an_answer_without_times_has_no_strip(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    scripted.plan(answer("Yes."))
    play_reader.send("Hello")
    play_reader.growth()
    assert play_reader.all(".strip") == []


def test_quantiles_are_read_from_buckets(play_reader: Reader) -> None:
    assert abs(play_reader.run(QUANTILE, COUNTS, 0.5) - 0.15) < 1e-9
    assert abs(play_reader.run(QUANTILE, COUNTS, 0.95) - 0.35) < 1e-9
    assert play_reader.run(QUANTILE, "", 0.5) is None
    beyond = COUNTS.replace('+Inf"} 10.0', '+Inf"} 100.0')
    assert play_reader.run(QUANTILE, beyond, 0.95) == 0.4


def counted(reader: Reader, name: str) -> str:
    """A count of the panel."""
    return reader.text(f"[data-count={name}]")


def test_the_panel_shows_the_servers_counts(play_reader: Reader, scripted: ScriptedServer) -> None:
    scripted.counts = COUNTS
    play_reader.click("[popovertarget=live]")
    until(lambda: counted(play_reader, "lanes") == "3 of 16", what="the lanes")
    shown = {name: counted(play_reader, name) for name in ("waiting", "free", "idle", "reuse")}
    assert shown == {"waiting": "2", "free": "400 of 512", "idle": "24", "reuse": "25 %"}
    assert counted(play_reader, "p50") == "150 ms"
    assert counted(play_reader, "p95") == "350 ms"
    scripted.counts = COUNTS.replace("tokens_total 120.0", "tokens_total 220.0")
    until(lambda: float(counted(play_reader, "speed")) > 20, what="the speed")


def test_counts_are_asked_for_only_while_they_are_seen(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    assert scripted.looks == 0
    play_reader.click("[popovertarget=live]")
    until(lambda: scripted.looks == 2, what="the second look")
    play_reader.click("[popovertarget=live]")
    play_reader.run("return new Promise((go) => setTimeout(go, 2200))")
    assert scripted.looks == 2
