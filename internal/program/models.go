package program

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/seam"
)

// latest is what Ollama adds to the name of a model without a tag.
const latest = ":latest"

func newModels(f *flags) *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use: "models", Short: "List the configured models, and whether their providers answer", Args: cobra.NoArgs,
		Long: `List the models that are set up: those that are known beforehand, with their
prices, and for each provider whether it was reached and takes the key. --all lists
every model that the accounts have. A model need not be listed to be used: any name
that its provider knows will do.

The server that has the data folder open is asked, with its settings and keys; without
one those of this command hold.`,
		Example: `  parley models
  parley models --all --json | jq -r '.providers[].models[].name'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.settings(cmd)
			if err != nil {
				return err
			}
			list, providers, err := f.kit.modelsOf(cmd.Context(), s)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"models": list, "providers": providers})
			}
			if all {
				list = slices.DeleteFunc(list, func(m client.Model) bool { return !m.Scripted })
				for _, p := range providers {
					list = append(list, p.Models...)
				}
			}
			return printModels(cmd.OutOrStdout(), list, providers)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&all, "all", false, "list all models of the accounts")
	return cmd
}

// modelsOf asks the running server, or else the providers in s.
func (k *kit) modelsOf(ctx context.Context, s config.Settings) (list []client.Model, providers []client.Provider, err error) {
	held, err := holderOf(s.Data)
	if err != nil {
		return nil, nil, err
	}
	if held != nil {
		if l := dial(ctx, &taker{h: *held, waits: true}, s); l != nil {
			defer l.close()
			if list, err = l.Models(ctx); err != nil {
				return nil, nil, err
			}
			providers, err = l.Providers(ctx)
			return list, providers, err
		}
	}
	p, err := k.plan(s, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, usage(err)
	}
	defer p.close()
	infos := []seam.ModelInfo{}
	for _, name := range p.models.Names() {
		if m, err := p.models.Model(name); err == nil {
			infos = append(infos, m.Info())
		}
	}
	if err := asClient(infos, &list); err != nil {
		return nil, nil, err
	}
	return list, providers, asClient(p.models.ask(ctx), &providers)
}

// asClient gives a value of the server the client's type, as the API does.
func asClient(v, into any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

func printModels(out io.Writer, list []client.Model, providers []client.Provider) error {
	has := map[string]bool{}
	asked := map[string]client.Provider{}
	for _, p := range providers {
		asked[p.Name] = p
		for _, m := range p.Models {
			has[m.Name] = true
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tCONTEXT\tMAX OUTPUT\tUSD PER MILLION TOKENS")
	for _, m := range list {
		price := "not known; budgets in dollars do not count it"
		switch {
		case m.Scripted:
			price = "free (a demo that follows rules)"
		case m.InputUSD > 0 || m.OutputUSD > 0:
			price = fmt.Sprintf("%g in, %g out (%s)", m.InputUSD, m.OutputUSD, m.PricedAt)
		case m.PricedAt != "":
			price = "free"
		}
		state := "ready"
		if p, ok := asked[m.Provider]; ok {
			switch {
			case !p.OK:
				state = "no answer"
			case !has[m.Name] && !has[m.Name+latest]:
				state = "not listed"
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", m.Name, state, m.ContextTokens, m.MaxOutputTokens, price)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, p := range providers {
		switch {
		case p.OK:
			fmt.Fprintf(out, "\n%s answered in %d ms and has %s.\n", p.Name, p.TookMS, count(len(p.Models), "model", "models"))
		case p.Error != nil:
			fmt.Fprintf(out, "\n%s: %s\n", p.Name, p.Error.Message)
			if p.Error.Hint != "" {
				fmt.Fprintf(out, "  %s\n", p.Error.Hint)
			}
		}
	}
	if len(providers) == 0 {
		fmt.Fprintln(out, "\nNo provider is configured: set ANTHROPIC_API_KEY, MISTRAL_API_KEY, OPENAI_API_KEY, OPENAI_BASE_URL or GEMINI_API_KEY.")
	}
	return nil
}
