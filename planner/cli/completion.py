"""`vplan completion`: what makes a shell offer commands, options and names at the Tab key."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from planner.errors import PlanError

# Each asks `vplan __complete`, which is answered before the rest of vplan is imported.
_SCRIPTS: Final = {
    "bash": """\
_vplan() {
    local IFS=$'\\n'
    COMPREPLY=($(vplan __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _vplan vplan
""",
    "zsh": """\
#compdef vplan
_vplan() {
    local -a offered
    offered=(${(f)"$(vplan __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#offered )); then
        compadd -M 'm:{a-zA-Z}={A-Za-z}' -a offered
    else
        _files
    fi
}
if [ "$funcstack[1]" = _vplan ]; then
    _vplan "$@"
else
    compdef _vplan vplan
fi
""",
    "fish": """\
function __vplan_offered
    set -l words (commandline -opc) (commandline -ct)
    vplan __complete $words[2..-1] 2>/dev/null
end
complete -c vplan -a '(__vplan_offered)'
""",
}


def completion(
    shell: Annotated[str, typer.Argument(help=f"{', '.join(_SCRIPTS)}.")],
) -> None:
    """Print a shell's completion script.

    bash: vplan completion bash > ~/.local/share/bash-completion/completions/vplan

    zsh: vplan completion zsh > _vplan, in a folder of $fpath

    fish: vplan completion fish > ~/.config/fish/completions/vplan.fish
    """
    if shell not in _SCRIPTS:
        raise PlanError(f"Unknown shell {shell!r}; one of {', '.join(_SCRIPTS)}")
    print(_SCRIPTS[shell], end="")
