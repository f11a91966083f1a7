"""The rules in examples/prometheus: Prometheus takes them, each alert comes when it should, and what they ask for is what the program exports."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import needs
import program

FOLDER = program.EXAMPLES / "prometheus"
RULES = (FOLDER / "quincunx.rules.yml").read_text(encoding="utf-8")
# Longer than anything takes here on a machine that is busy.
WAIT_SECONDS = 20
SELECTOR = re.compile(r"(quincunx_\w+)\{([^}]*)\}")


def promtool(*arguments: str, folder: Path = FOLDER) -> subprocess.CompletedProcess:
    return subprocess.run(["promtool", *arguments], cwd=folder, text=True, capture_output=True, timeout=program.ANSWER_SECONDS)


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=program.ANSWER_SECONDS) as answer:
        return answer.read().decode()


@needs.programs("prometheus", "promtool")
class RulesTest(unittest.TestCase):
    def test_prometheus_takes_the_configuration_and_the_rules(self) -> None:
        for arguments in (("check", "config", "prometheus.yml"), ("check", "rules", "quincunx.rules.yml")):
            ended = promtool(*arguments)
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)

    def test_each_alert_comes_when_it_should_and_only_then(self) -> None:
        ended = promtool("test", "rules", "quincunx.rules.test.yml")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)

    def test_another_threshold_is_noticed(self) -> None:
        for old, new in (("> 0.9", "> 0.99"), ("> 0.01", "> 0.02"), ("== 0", "== 2"), ("job=\"quincunx-switch\"", "job=\"switch\"")):
            with self.subTest(old=old), tempfile.TemporaryDirectory() as folder:
                shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
                Path(folder, "quincunx.rules.yml").write_text(RULES.replace(old, new), encoding="utf-8")
                self.assertNotEqual(promtool("test", "rules", "quincunx.rules.test.yml", folder=Path(folder)).returncode, 0)


class ExportTest(unittest.TestCase):
    def test_each_alert_has_a_test(self) -> None:
        tests = (FOLDER / "quincunx.rules.test.yml").read_text(encoding="utf-8")
        for alert in re.findall(r"- alert: (\w+)", RULES):
            self.assertRegex(tests, rf"{alert}\b", alert)

    def test_manager_and_switch_export_what_the_rules_ask_for(self) -> None:
        pages = self.pages()
        for metric, labels in SELECTOR.findall(RULES):
            family = re.sub(r"_(?:total|sum|count|bucket)$", "", metric)
            named = dict(re.findall(r"(\w+)=~?\"([^\"]*)\"", labels))
            page = pages[named.pop("job")]
            with self.subTest(metric=metric):
                self.assertRegex(page, rf"(?m)^# TYPE {family} ")
                for sample in re.findall(rf"(?m)^{metric}(?:\{{(.*)\}})? ", page):
                    self.assertLessEqual(named.keys(), set(re.findall(r"(\w+)=\"", sample)))

    def test_the_labels_that_annotations_name_are_those_of_the_metrics(self) -> None:
        pages = self.pages()
        for metric, label, job in (
            ("quincunx_calls_total", "call", "manager"), ("quincunx_calls_total", "result", "manager"),
            ("quincunx_fallbacks_total", "reason", "manager"), ("quincunx_fallbacks_total", "switch", "manager"),
            ("quincunx_switch_memory_held_bytes", "switch", "manager"), ("quincunx_queue_pairs_held", "switch", "manager"),
            ("quincunx_frames_total", "direction", "switch"), ("quincunx_lateness_seconds_sum", "rank", "switch"),
            ("quincunx_lateness_seconds_sum", "group", "switch"),
        ):
            with self.subTest(metric=metric, label=label):
                self.assertRegex(pages[f"quincunx-{job}"], rf"(?m)^{metric}\{{.*\b{label}=\"")

    def pages(self) -> dict[str, str]:
        """What manager and switch show, by job, once a group has run in the network, one has found no room there, and a frame was dropped."""
        first = f"127.{64 + os.getpid() // 250 % 60}.{os.getpid() % 250}"
        at, manager_metrics = self.start("manager", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
        address = re.search(r"listens at (\S+)", at)[1]
        _, switch_metrics = self.start("switch", "--name", "leaf1", "--address", f"{first}.250", "--manager", address, "--memory", "1MiB", "--metrics", "127.0.0.1:0")
        self.until("the switch is attached", lambda: "leaf1" in program.ask("nodes", "--manager", address).stdout)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.sendto(b"no frame", (f"{first}.250", 4791))
        asked = ["perf", "all_reduce", "--ranks", "2", "--design", "epic-3", "--sizes", "4KiB", "--manager", address, "--addresses", f"{first}.1,{first}.2"]
        without_room = program.ask(*asked, "--iterations", "2", "--set", "group.slots=4096")
        self.assertIn("fell back to ring", without_room.stdout, without_room.stderr)
        # How late ranks come is shown as long as their group is there.
        running = subprocess.Popen([program.program(), *asked, "--iterations", "1000000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            shown = {"quincunx_lateness_seconds_sum", "quincunx_frames_dropped_total"}
            of_switch = self.until("the switch shows all", lambda: all(name in (text := page(switch_metrics)) for name in shown) and text)
        finally:
            running.terminate()
            running.wait()
        return {"quincunx-manager": page(manager_metrics), "quincunx-switch": of_switch}

    def until(self, what: str, found: Callable[[], Any]) -> Any:
        """What is found, once it is something."""
        end = time.monotonic() + WAIT_SECONDS
        while not (result := found()):
            self.assertLess(time.monotonic(), end, f"expected that {what}, found that it does not")
            time.sleep(0.05)
        return result

    def start(self, *arguments: str) -> tuple[str, str]:
        """Starts a process that ends with the test; the first line that it prints, and where its metrics are."""
        process = subprocess.Popen([program.program(), *arguments, "--log-level", "off"], text=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        lines = []
        while not lines or "metrics at" not in lines[-1]:
            lines.append(process.stdout.readline())
            self.assertTrue(lines[-1], f"{arguments[0]} has ended")
        return lines[0], lines[-1].split()[-1]


if __name__ == "__main__":
    unittest.main()
