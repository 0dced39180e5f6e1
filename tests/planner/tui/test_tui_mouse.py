"""The mouse works where the keys do."""

from __future__ import annotations

from textual.widgets import Input
from tui_driver import SMALL, Driver, drive

from planner.tui.screens.picker import Picker
from planner.tui.widgets.knob_row import LABEL, KnobRow


def test_arrows_values_and_tabs_can_be_clicked() -> None:
    async def script(driver: Driver) -> None:
        row = driver.plan.query_one("#knob-max_model_len", KnobRow)
        await driver.pilot.click(row, offset=(row.size.width - 1, 0))
        assert driver.value("max_model_len") == "32,768"
        await driver.pilot.click(row, offset=(LABEL, 0))
        assert driver.plan.settings == SMALL
        await driver.pilot.click(row, offset=(LABEL + 5, 0))
        assert isinstance(driver.app.focused, Input)
        await driver.press("escape")
        await driver.pilot.click("#why")
        await driver.rest()
        assert driver.plan.query_one("#tab-why").display
        await driver.pilot.click("#knob-model", offset=(LABEL + 5, 0))
        assert isinstance(driver.app.screen, Picker)
        await driver.pilot.click("OptionList", offset=(4, 2))
        await driver.rest()
        assert driver.plan.settings.model != SMALL.model

    drive(script)
