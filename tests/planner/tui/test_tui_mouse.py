"""The mouse works where the keys do."""

from __future__ import annotations

from textual.widgets import Input, Static
from tui_driver import SMALL, Driver, drive

from planner.tui.screens.picker import Picker


def test_arrows_values_and_tabs_can_be_clicked() -> None:
    async def script(driver: Driver) -> None:
        value = driver.plan.query_one("#knob-max_model_len .value", Static)
        await driver.pilot.click(value, offset=(value.size.width - 1, 0))
        assert driver.value("max_model_len") == "32,768"
        await driver.pilot.click(value, offset=(0, 0))
        assert driver.plan.settings == SMALL
        await driver.pilot.click(value, offset=(5, 0))
        assert isinstance(driver.app.focused, Input)
        await driver.press("escape")
        await driver.pilot.click("#why")
        await driver.rest()
        assert driver.plan.query_one("#tab-why").display
        await driver.pilot.click("#knob-model .value", offset=(5, 0))
        assert isinstance(driver.app.screen, Picker)
        await driver.pilot.click("OptionList", offset=(4, 2))
        await driver.rest()
        assert driver.plan.settings.model != SMALL.model

    drive(script)
