"""What a round of a million clients would cost, by what each client of a measured run costs."""

from streamfl_benchmarks.run_file import Row


def million(run: Row) -> dict[str, float]:
    """Return the cost of each part: a million times that of one client of a run.

    >>> run = {"ms_a_client_round": 0.9, "coordinator_ms_a_client_round": 0.2, "decode_ms": 0.3, "of_clients": 10_000,
    ...        "update_bytes": 900, "entry_bytes_on_log": 150_000, "entry_bytes": 10**6, "state_bytes": 5 * 10**6,
    ...        "memory_mb": 500.0}
    >>> {part: round(cost, 3) for part, cost in million(run).items()}
    {'hosts_s': 700.0, 'updates_gb': 0.9, 'coordinator_s': 500.0, 'decoding_s': 300.0, 'entry_mb': 15.0,
     'entry_json_mb': 100.0, 'state_gb': 0.5, 'memory_gb': 50.0}
    """
    clients, coordinator, decode = run["of_clients"], run["coordinator_ms_a_client_round"], run["decode_ms"]
    return {
        "hosts_s": 1e3 * (run["ms_a_client_round"] - coordinator),
        "updates_gb": run["update_bytes"] / 1e3,
        "coordinator_s": 1e3 * (coordinator + decode),
        "decoding_s": 1e3 * decode,
        "entry_mb": run["entry_bytes_on_log"] / clients,
        "entry_json_mb": run["entry_bytes"] / clients,
        "state_gb": run["state_bytes"] / clients / 1e3,
        "memory_gb": 1e3 * run["memory_mb"] / clients,
    }
