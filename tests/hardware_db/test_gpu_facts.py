"""The data against what is known independently: rules, published figures, observations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hardware_db
from hardware_db import DenseRates, Gpu, all_gpus, find_gpu
from hardware_db.rows import load_gpus
from hardware_db.units import GIB, MIB

GPUS = {gpu.slug: gpu for gpu in all_gpus()}
DATA = Path(hardware_db.__file__).parent / "data" / "gpus.json"

# slug: (memory bus in bits, data rate in Gbit/s per pin), from the vendors' specifications.
BUS = {
    "p40": (384, 7.23), "t4": (256, 10), "titan-rtx": (384, 14), "rtx-2080-ti": (352, 14),
    "rtx-2080-super": (256, 15.5), "quadro-rtx-8000": (384, 14), "rtx-3060": (192, 15),
    "rtx-3060-8gb": (128, 15), "rtx-3070": (256, 14), "rtx-3080": (320, 19),
    "rtx-3080-12gb": (384, 19), "rtx-3090": (384, 19.5), "rtx-3090-ti": (384, 21),
    "rtx-a2000-12gb": (192, 12), "rtx-a4000": (256, 14), "rtx-a5000": (384, 16),
    "rtx-a6000": (384, 16), "a10": (384, 12.5), "a16": (128, 12.5), "a40": (384, 14.5),
    "rtx-4060": (128, 17), "rtx-4060-ti-16gb": (128, 18), "rtx-4070": (192, 21),
    "rtx-4070-ti-super": (256, 21), "rtx-4080": (256, 22.4), "rtx-4080-super": (256, 23),
    "rtx-4090": (384, 21), "rtx-4090-laptop": (256, 18), "rtx-2000-ada": (128, 16),
    "rtx-4000-ada": (160, 18), "rtx-4500-ada": (192, 18), "rtx-5000-ada": (256, 18),
    "rtx-6000-ada": (384, 20), "l4": (192, 12.5), "l40s": (384, 18), "rtx-5050": (128, 20),
    "rtx-5060": (128, 28), "rtx-5060-ti-8gb": (128, 28), "rtx-5060-ti-16gb": (128, 28),
    "rtx-5070": (192, 28), "rtx-5070-ti": (256, 28), "rtx-5080": (256, 30),
    "rtx-5090": (512, 28), "rtx-5090-laptop": (256, 28), "rtx-pro-4000-blackwell": (192, 28),
    "rtx-pro-4500-blackwell": (256, 28), "rtx-pro-5000-blackwell": (384, 28),
    "rtx-pro-5000-72gb-blackwell": (384, 28), "rtx-pro-6000-blackwell": (512, 28),
    "rtx-pro-6000-blackwell-server": (512, 28), "gb10": (256, 8.533),
    "jetson-agx-orin-64gb": (256, 6.4), "radeon-8060s": (256, 8), "rx-7900-xtx": (384, 20),
    "rx-7900-xt": (320, 20), "rx-9070-xt": (256, 20), "arc-a770-16gb": (256, 17.5),
    "arc-b580": (192, 19), "arc-pro-b60": (192, 19),
}  # fmt: skip
AMPERE_GEFORCE = {slug for slug in GPUS if slug.startswith("rtx-30")} - {"rtx-3090-ti"}
ECC_ON = {"t4", "a10", "a16", "a40", "l4", "l40s"}


def rule(gpu: Gpu) -> int:
    """The NVML total (MiB) that the family's rule gives for a GDDR card."""
    assert gpu.compute_capability is not None
    assert gpu.memory.nominal_gb is not None
    nominal, channels = round(gpu.memory.nominal_gb * 1024), BUS[gpu.slug][0] // 32
    if gpu.compute_capability >= (12, 0):
        total = nominal - nominal // 256 - 2 * channels - 1
    elif gpu.compute_capability < (8, 6) or gpu.slug in AMPERE_GEFORCE:
        total = nominal
    else:  # Ada, Ampere for workstations and servers, and the RTX 3090 Ti
        total = nominal - channels
    return total * 15 // 16 if gpu.slug in ECC_ON else total


def test_every_row_is_there_one_a_line_and_without_nulls() -> None:
    lines = DATA.read_text("utf-8").splitlines()
    rows = [json.loads(line.rstrip(",")) for line in lines[1:-1]]
    assert len(rows) == len(GPUS) == 167
    assert not [key for row in rows for key, value in row.items() if value is None]
    assert all(row["sources"] and row["confidence"] for row in rows)
    assert {gpu.vendor for gpu in GPUS.values()} == {"nvidia", "amd", "intel"}


@pytest.mark.parametrize("slug", BUS)
def test_bandwidth_is_bus_times_data_rate(slug: str) -> None:
    bits, gbits = BUS[slug]
    assert GPUS[slug].bandwidth_gbs == pytest.approx(bits / 8 * gbits, rel=0.003)


@pytest.mark.parametrize(
    ("slug", "gbs"),
    [("a100-sxm4-40gb", 1555), ("a100-pcie-80gb", 1935), ("a100-sxm4-80gb", 2039),
     ("h100-pcie", 2000), ("h100-sxm", 3350), ("h100-nvl", 3938), ("h200-sxm", 4800),
     ("b200", 7700), ("mi300x", 5300), ("mi325x", 6000), ("v100-sxm2-32gb", 900)],
)  # fmt: skip
def test_bandwidth_of_stacked_memory_is_the_published_figure(slug: str, gbs: float) -> None:
    assert GPUS[slug].bandwidth_gbs == gbs


@pytest.mark.parametrize(
    "slug", [s for s, gpu in GPUS.items() if s in BUS and gpu.vendor == "nvidia"
             and "GDDR" in gpu.memory.type and s != "p40"]
)  # fmt: skip
def test_nvml_total_follows_the_rule_of_its_family(slug: str) -> None:
    assert GPUS[slug].memory.nvml_total_bytes == rule(GPUS[slug]) * MIB


@pytest.mark.parametrize(
    ("slug", "mib"),
    [("v100-sxm2-32gb", 32768), ("a100-sxm4-40gb", 40960), ("a100-sxm4-80gb", 81920),
     ("h100-sxm", 81559), ("h100-nvl", 95830), ("h20", 97871), ("gh200-96gb", 97871),
     ("h200-sxm", 143771), ("b200", 183359), ("gb200", 189471), ("b300", 275040),
     ("gb300", 284208), ("rtx-4090", 24564), ("rtx-pro-6000-blackwell-server", 97887)],
)  # fmt: skip
def test_nvml_total_is_the_observed_one(slug: str, mib: int) -> None:
    memory = GPUS[slug].memory
    assert (memory.nvml_total_bytes, memory.nvml_basis) == (mib * MIB, "observed")


@pytest.mark.parametrize(
    ("slug", "low", "high"),
    # torch totals in GiB that public Linux logs show
    [("t4", 14.56, 14.75), ("rtx-3060", 11.66, 11.76), ("rtx-3090", 23.51, 23.70),
     ("rtx-4090", 23.49, 23.65), ("l4", 22.15, 22.17), ("rtx-5090", 31.34, 31.36),
     ("a100-sxm4-40gb", 39.49, 39.56), ("l40s", 44.39, 44.40), ("l20", 44.39, 44.40),
     ("rtx-4090-48gb", 47.37, 47.50), ("a100-sxm4-80gb", 79.15, 79.32),
     ("h100-sxm", 79.11, 79.19), ("rtx-pro-6000-blackwell-server", 94.96, 94.98),
     ("gb10", 119.63, 121.70), ("h200-sxm", 139.69, 139.81), ("b200", 178.34, 178.37),
     ("mi300x", 191.68, 191.99), ("b300", 267.68, 267.70)],
)  # fmt: skip
def test_usable_memory_lies_where_it_was_seen(slug: str, low: float, high: float) -> None:
    memory = GPUS[slug].memory
    assert memory.basis == "observed"
    assert memory.observations > 0
    assert memory.total_bytes is not None
    assert memory.total_low_bytes <= memory.total_bytes <= memory.total_high_bytes
    assert low - 0.005 <= memory.total_low_bytes / GIB
    assert memory.total_high_bytes / GIB <= high + 0.005


def test_estimates_take_the_drivers_reserve_off_the_nvml_total() -> None:
    memory = GPUS["rtx-4070"].memory  # nobody has shown its total on Linux
    assert memory.basis == "estimated"
    assert memory.nvml_total_bytes == 12282 * MIB
    assert memory.nvml_basis == "Ada: N - channels"
    assert memory.total_bytes == pytest.approx((12282 * 0.9975 - 340) * MIB, abs=1)
    assert memory.total_low_bytes == pytest.approx(memory.total_bytes - 268 * MIB, abs=1)
    assert memory.total_high_bytes == pytest.approx(memory.total_bytes + 268 * MIB, abs=1)


def test_the_estimate_is_within_its_error_for_most_observed_cards() -> None:
    seen = [g.memory for g in GPUS.values() if g.memory.observations and g.memory.nvml_total_bytes]
    misses = [
        memory
        for memory in seen
        if abs((memory.nvml_total_bytes * 0.9975 - 340 * MIB) - memory.total_bytes) > 268 * MIB
    ]
    assert len(seen) > 35
    assert len(misses) / len(seen) < 0.1


def test_usable_memory_is_never_more_than_the_driver_shows() -> None:
    for gpu in GPUS.values():
        memory = gpu.memory
        if memory.total_high_bytes and memory.nvml_total_bytes:
            assert memory.total_high_bytes <= memory.nvml_total_bytes, gpu.slug


# Dense FLOP per SM and clock, fp16 with FP16 accumulation, by compute capability.
PER_SM = {(7, 0): 1024, (7, 5): 1024, (8, 0): 2048, (8, 6): 1024, (8, 9): 1024, (12, 0): 1024}
CAPPED = {"l40", "l20", "l4", "l40s"}  # sold with other rates than their SMs would give


@pytest.mark.parametrize(
    "slug", [s for s, gpu in GPUS.items() if gpu.compute_capability in PER_SM and s not in CAPPED]
)
def test_dense_rate_is_sms_times_clock_times_rate(slug: str) -> None:
    gpu = GPUS[slug]
    peak = gpu.sm_count * gpu.boost_mhz * 1e6 * PER_SM[gpu.compute_capability] / 1e12
    assert gpu.rates.fp16 == pytest.approx(peak, rel=0.005)
    half = 0.5 if "GeForce" in gpu.name else 1
    assert gpu.matmul("fp16") == pytest.approx(peak * half, rel=0.005)
    if gpu.compute_capability >= (8, 0):
        assert gpu.matmul("bf16") == pytest.approx(peak * half, rel=0.005)


@pytest.mark.parametrize(
    ("slug", "dtype", "tflops"),
    [("rtx-3090", "bf16", 71), ("rtx-4090", "bf16", 165.2), ("rtx-4090", "fp8", 330.3),
     ("rtx-4090", "int8", 660.6), ("rtx-5090", "bfloat16", 209.5), ("rtx-5090", "fp8_e4m3", 419),
     ("rtx-5090", "nvfp4", 1676), ("rtx-a6000", "bf16", 154.8), ("l40s", "fp8", 733),
     ("l4", "bf16", 121), ("a100-sxm4-80gb", "half", 312), ("h100-sxm", "bf16", 989.4),
     ("h100-sxm", "fp8", 1978.9), ("h20", "bf16", 148), ("b200", "fp4", 9000),
     ("b300", "int8", 153.5), ("t4", "float16", 65), ("v100-sxm2-16gb", "fp16", 125)],
)  # fmt: skip
def test_dense_rate_is_the_published_one(slug: str, dtype: str, tflops: float) -> None:
    assert GPUS[slug].matmul(dtype) == pytest.approx(tflops, rel=0.005)


def test_a_rate_that_is_not_known_is_none_and_a_dtype_that_is_none_raises() -> None:
    assert GPUS["t4"].matmul("bf16") is None
    assert GPUS["a100-sxm4-80gb"].matmul("fp8") is None
    assert GPUS["h100-nvl"].matmul("bf16") is None
    assert DenseRates(fp16=100).matmul("fp16") == 100
    with pytest.raises(ValueError, match="bf17"):
        DenseRates().matmul("bf17")


@pytest.mark.parametrize(
    ("slug", "gbs", "bridge"),
    [("v100-sxm2-32gb", 300, False), ("a100-sxm4-80gb", 600, False), ("a800-sxm4-80gb", 400, False),
     ("h100-sxm", 900, False), ("h800-sxm", 400, False), ("b200", 1800, False),
     ("rtx-3090", 112.5, True), ("rtx-a6000", 112.5, True), ("titan-rtx", 100, True)],
)  # fmt: skip
def test_nvlink(slug: str, gbs: float, bridge: bool) -> None:
    link = GPUS[slug].nvlink
    assert link is not None
    assert (link.gbs_bidirectional, link.bridge) == (gbs, bridge)


def test_ada_and_geforce_blackwell_have_no_nvlink() -> None:
    for slug in ("rtx-4090", "rtx-5090", "l4", "l40s", "rtx-6000-ada", "rtx-pro-6000-blackwell"):
        link = GPUS[slug].nvlink
        assert link is not None
        assert link.generation == 0


@pytest.mark.parametrize(
    ("slug", "cc"),
    [("p100-pcie-16gb", (6, 0)), ("t4", (7, 5)), ("rtx-5090", (12, 0)), ("b300", (10, 3)),
     ("gb10", (12, 1)), ("h100-sxm", (9, 0)), ("mi300x", None)],
)  # fmt: skip
def test_compute_capability(slug: str, cc: tuple[int, int] | None) -> None:
    assert GPUS[slug].compute_capability == cc


def test_what_vllm_keys_its_defaults_on() -> None:
    h100, gb10 = GPUS["h100-sxm"], GPUS["gb10"]
    assert h100.driver_name == "NVIDIA H100 80GB HBM3"
    assert h100.memory.device_total_bytes == 81559 * MIB
    assert GPUS["a100-sxm4-80gb"].driver_name == "NVIDIA A100-SXM4-80GB"
    # NVML does not answer on a GB10: vLLM falls back to torch's total.
    assert gb10.memory.nvml_total_bytes is None
    assert gb10.memory.device_total_bytes == gb10.memory.total_bytes
    assert gb10.memory.unified


def test_missing_facts_are_named_in_plain_words() -> None:
    assert GPUS["rtx-4090"].missing_facts() == ()
    assert GPUS["t4"].missing_facts() == ()  # no bf16 on Turing, so none is missing
    assert GPUS["h100-nvl"].missing_facts() == ("bf16 rate", "fp8 rate")
    assert GPUS["arc-b580"].missing_facts() == ("usable memory", "bf16 rate")
    assert GPUS["h800-pcie"].missing_facts() == ("usable memory", "bf16 rate", "fp8 rate")


def test_multi_die_boards_are_counted_by_device() -> None:
    assert GPUS["mi250x"].memory.devices_per_board == 2
    assert GPUS["mi250x"].bandwidth_gbs == 1638.4
    assert GPUS["a16"].memory.devices_per_board == 4


def test_prices_carry_their_date_and_source() -> None:
    prices = find_gpu("rtx-3090").gpu.prices
    assert [(p.usd_low, p.usd_high, p.per, p.kind, p.date) for p in prices] == [
        (0.22, 0.22, "hour", "spot", "2026-03"),
        (0.39, 0.39, "hour", "on-demand", "2026-03"),
    ]
    assert all(price.source for gpu in GPUS.values() for price in gpu.prices)
    assert (GPUS["gb10"].prices[0].usd_low, GPUS["gb10"].prices[0].per) == (4699, "card")


def test_the_catalogue_loads_fast_and_once() -> None:
    from time import perf_counter

    def seconds() -> float:
        start = perf_counter()
        load_gpus.__wrapped__()
        return perf_counter() - start

    assert min(seconds() for _ in range(20)) < 0.040  # 5 ms where nothing else runs
    assert all_gpus() is all_gpus()
