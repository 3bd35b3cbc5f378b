"""`/metrics` of the page: what Prometheus is told where nobody watches."""

from __future__ import annotations

from support.page import CONFIG, Server, Shown


def test_it_tells_of_every_table_and_goes_on_from_the_file(shown: Shown, server: Server) -> None:
    shown.put("one.csv", ("Astrid", 1, 900), ("Fram", 2, 400))
    assert server.get("/metrics").text == "", "there is no table yet"
    shown.run()
    (shown.folder / "lading.yaml").write_text(f"metrics: {{file: lading.prom}}\n{CONFIG}")
    (shown.folder / "lading.prom").write_text('lading_runs_total{table="voyages",result="succeeded"} 41\n')
    answer = server.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.text.splitlines()
    assert 'lading_rows{table="voyages"} 2' in lines
    assert 'lading_rows{table="ports"} 2' in lines
    assert 'lading_runs_total{table="voyages",result="succeeded"} 41' in lines
    (shown.folder / "warehouse" / "ports" / "manifest.log").write_bytes(b"damaged")
    lines = server.get("/metrics").text.splitlines()
    assert 'lading_rows{table="voyages"} 2' in lines, "one that can't be opened hides no other"
    assert 'lading_rows{table="ports"} 2' not in lines


def test_nobody_without_the_token_is_told(server: Server) -> None:
    assert server.ask("GET", "/metrics", {}).status == 401
