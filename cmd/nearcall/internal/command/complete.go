package command

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// completionTimeout bounds how long a person who presses Tab waits for a server.
const completionTimeout = 500 * time.Millisecond

// completeSource offers what an address begins with, and files.
func (p *program) completeSource(_ *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if toComplete == "" {
		return []cobra.Completion{"unix:/", "tcp:"}, cobra.ShellCompDirectiveNoSpace
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// completeFunction offers the functions of the source that was named.
func (p *program) completeFunction(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return p.completeSource(cmd, args, toComplete)
	case 1:
		return p.functionNames(args[0]), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// functionNames stays silent when there is no server: a prompt is no place for
// an error.
func (p *program) functionNames(source string) []cobra.Completion {
	if source == "-" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	document, err := p.document(ctx, source)
	if err != nil {
		return nil
	}
	var names []cobra.Completion
	for _, f := range document.Functions {
		names = append(names, cobra.CompletionWithDesc(f.Name, firstSentence(f.Doc)))
	}
	return names
}
