//! Arguments of `etlink completions`.

use clap::Args;
use clap_complete::Shell;

/// `etlink completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "Put what it prints where your shell looks, for example:\n  \
    etlink completions bash > ~/.local/share/bash-completion/completions/etlink\n  \
    etlink completions zsh > ~/.zfunc/_etlink    # a folder of your fpath\n  \
    etlink completions fish > ~/.config/fish/completions/etlink.fish"
)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}
