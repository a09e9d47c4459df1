package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"

	"github.com/nearcall/nearcall/resident"
)

// A program is one run, of which there may be several at a time: everything of the
// caller is in its invocation.
type program struct{ *resident.Invocation }

func newRoot(inv *resident.Invocation) *cobra.Command {
	p := program{inv}
	root := &cobra.Command{
		Use:   "page",
		Short: "Turn Markdown into pages",
		Long: `page turns Markdown with front matter into pages. Settings such as "style" are
those of the front matter, of the variable PAGE_STYLE, and of page.yaml in the
current directory, whichever of them comes first.`,
		SilenceUsage: true,
	}
	root.AddCommand(p.htmlCommand(), p.readCommand(), p.listCommand())
	return root
}

func (p program) htmlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "html [FILE]",
		Short: "Print a page as HTML",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			settings, text, err := p.load(args)
			if err != nil {
				return err
			}
			return writeHTML(cmd.OutOrStdout(), settings, text)
		},
	}
}

func (p program) readCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "read [FILE]",
		Short: "Show a page in the terminal, with $PAGER",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			settings, text, err := p.load(args)
			if err != nil {
				return err
			}
			if !p.Terminal.Stdout {
				return writeTerminal(cmd.OutOrStdout(), settings, text, false)
			}
			return p.showInPager(cmd.Context(), settings, text)
		},
	}
}

func (p program) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list [DIRECTORY]",
		Short: "List pages with their titles",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			directory := "."
			if len(args) > 0 {
				directory = args[0]
			}
			files, err := filepath.Glob(filepath.Join(p.Path(directory), "*.md"))
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, file := range files {
				settings, text, err := p.load([]string{file})
				if err != nil {
					return err
				}
				fmt.Fprintf(table, "%s\t%s\t%d words\n", filepath.Base(file), settings.GetString("title"), len(strings.Fields(string(text))))
			}
			return table.Flush()
		},
	}
}

// load reads the page that is named, or standard input, and its settings.
func (p program) load(args []string) (settings *viper.Viper, text []byte, err error) {
	settings, err = p.settings()
	if err != nil {
		return nil, nil, err
	}
	var page []byte
	if len(args) == 0 {
		page, err = io.ReadAll(p.Stdin)
	} else {
		page, err = os.ReadFile(p.Path(args[0]))
	}
	if err != nil {
		return nil, nil, err
	}
	return split(settings, page)
}

// settings are those of the caller's directory and environment.
func (p program) settings() (*viper.Viper, error) {
	settings := defaults()
	settings.SetConfigFile(p.Path("page.yaml"))
	if err := settings.ReadInConfig(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if style, found := p.LookupEnv("PAGE_STYLE"); found {
		return settings, settings.MergeConfigMap(map[string]any{"style": style})
	}
	return settings, nil
}

// showInPager runs the pager on the caller's side, where the terminal is its own.
func (p program) showInPager(ctx context.Context, settings *viper.Viper, text []byte) error {
	file, err := os.CreateTemp("", "page-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if err := writeTerminal(file, settings, text, true); err != nil {
		return err
	}
	pager := p.Getenv("PAGER")
	if pager == "" {
		pager = "less -R"
	}
	code, err := p.Execute(ctx, "sh", "-c", pager+` "$0"`, file.Name())
	if err == nil && code != 0 {
		err = fmt.Errorf("the pager %q ended with code %d", pager, code)
	}
	return err
}
