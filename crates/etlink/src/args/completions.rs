//! Arguments of `etlink completions`.

use clap::Args;
use clap_complete::Shell;

/// `etlink completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples, to write the script where your shell looks for it:\n  \
    etlink completions bash > ~/.local/share/bash-completion/completions/etlink\n  \
    etlink completions zsh > ~/.zfunc/_etlink    # a folder of your fpath\n  \
    etlink completions fish > ~/.config/fish/completions/etlink.fish"
)]
pub struct CompletionsArgs {
    /// Shell that runs the script
    #[arg(value_enum)]
    pub shell: Shell,
}
