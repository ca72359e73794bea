# completed.zsh FOLDER LINE: what zsh offers for LINE with the completions in FOLDER, a line each.
# A shell in a pseudo-terminal prints each match between two bytes, after a third one as it begins.
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PROMPT= RPROMPT=; fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D
compadd() {
    local -a hits
    builtin compadd -A hits \"\$@\"
    print -rl -- \$'\\1'\${^hits}\$'\\2'
    builtin compadd \"\$@\"
}
begin() { print -rn -- \$'\\3' }
compprefuncs=(begin) comppostfuncs=(begin exit)
bindkey '^I' complete-word"
zpty -w shell "$2"$'\t'
local text= part=
while zpty -r shell part; do text+=$part; done
text=${text#*$'\3'}
while [[ $text == *$'\1'* ]]; do
    text=${text#*$'\1'}
    print -r -- ${text%%$'\2'*}
done
