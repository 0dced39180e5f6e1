"""`vplan tui`: planning by turning knobs. It shows what the planner says and computes nothing.

`settings.py` is what the knobs hold, `knobs.py` what each does, `outcome.py` what the planner says
of them; one file for each screen and widget, the looks in `vplan.tcss`. Imported, Textual with it,
only when the TUI runs.
"""
