package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/tui"
	"github.com/parley-server/parley/internal/tui/chat"
)

func newChat(f *flags) *cobra.Command {
	var server, keyFile string
	var o chat.Options
	var app, session, space, runtime string
	cmd := &cobra.Command{
		Use: "chat", Short: "Talk with agents on this terminal", Args: cobra.NoArgs,
		Long: `Talk with agents on this terminal: choose a session or begin one, see what agents say
and do while they do it, answer what they ask, interrupt them, go back. ? shows the keys.

It uses the server that has the data folder open, when there is one; otherwise it works in
the folder itself, and a turn that runs stops when you leave. --server (or PARLEY_SERVER)
names a server elsewhere. Its key comes from PARLEY_KEY or the file of --key-file; without
one it is asked for. A session may be open in several places at once: all show the same.

--plain writes lines instead of drawing a screen, each thing once, and asks in words. It is
for screen readers, and is what a terminal gets that cannot draw (TERM=dumb), a pipe, and a
file.`,
		Example: `  parley chat
  parley chat --app chaos
  parley chat --session last
  PARLEY_KEY=... parley chat --server https://parley.example.org`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if session != "" && (app != "" || space != "" || o.Title != "" || runtime != "") {
				return usage(parley.Errorf(parley.CodeInvalid, "--session is given, and so is --app, --workspace, --title or --runtime").
					WithHint("these are of a new session; leave out one of them (/title and /runtime change an old one)"))
			}
			if app == "" && (space != "" || o.Title != "" || runtime != "") {
				return usage(parley.Errorf(parley.CodeInvalid, "--workspace, --title and --runtime are of a new session").WithHint("name its app with --app"))
			}
			o.App, o.Workspace, o.Runtime = app, parley.Workspace(space), runtime
			if cmd.Flags().Changed("model") {
				o.Model = *f.set["model"]
			}
			o.Env, o.In, o.Out, o.Err = os.Getenv, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			o.Plain = o.Plain || !isScreen(o.In) || !isScreen(o.Out) || os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == ""
			if server == "" {
				server = os.Getenv("PARLEY_SERVER")
			}
			if server != "" {
				return f.chatElsewhere(cmd, o, server, keyFile, session)
			}
			held := holdBack(cmd, !o.Plain)
			defer held.release()
			return f.with(cmd, mayMake|recovers|stays|listens, func(ctx context.Context, l *link) error {
				if session != "" {
					id, err := l.find(ctx, session)
					if err != nil {
						return err
					}
					o.Session = id
				}
				o.Own = l.own
				o.Connect = l.telling
				held.begin()
				left, err := chat.Run(ctx, o)
				held.release()
				return chatLeft(cmd, o, left, err)
			})
		},
	}
	cmd.Flags().StringVar(&app, "app", "", "begin a session with the app of this `name`")
	cmd.Flags().StringVar(&space, "workspace", "", "`name` of the new session's workspace (default: the app's)")
	cmd.Flags().StringVar(&o.Title, "title", "", "`title` of the new session")
	cmd.Flags().StringVar(&runtime, "runtime", "", "`name` of what carries out the new session's turns, loop or claude (default: the app's)")
	cmd.Flags().StringVar(&session, "session", "", "open this session, by its `id`; \"last\" is the one that changed last")
	cmd.Flags().StringVar(&server, "server", "", "`URL` of a server elsewhere (PARLEY_SERVER)")
	cmd.Flags().StringVar(&keyFile, "key-file", "", "`file` with the key for that server (default: PARLEY_KEY)")
	cmd.Flags().BoolVar(&o.Plain, "plain", false, "write lines instead of drawing a screen")
	return cmd
}

func isScreen(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// chatLeft says how to go on, and makes an error of how the chat ended.
func chatLeft(cmd *cobra.Command, o chat.Options, left chat.Left, err error) error {
	if left.Session != "" && !o.Plain {
		how := commandWith(cmd, "parley chat")
		if f := cmd.Flags().Lookup("server"); f != nil && f.Changed {
			how += " --server " + f.Value.String()
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "To go on: %s --session %s\n", how, left.Session)
		if left.Busy && o.Own != nil && o.Own() {
			fmt.Fprintln(cmd.ErrOrStderr(), "Its turn stopped with this program; there, /resume goes on with it.")
		}
	}
	if err != nil && (cmd.Context().Err() != nil || parley.CodeOf(err) == parley.CodeCancelled) {
		return &exitError{exitSignal, nil}
	}
	return err
}

// maxKey is longer than any key or token.
const maxKey = 16 << 10

// chatElsewhere chats with a server at a URL.
func (f *flags) chatElsewhere(cmd *cobra.Command, o chat.Options, server, keyFile, session string) error {
	at, err := url.Parse(server)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return usage(parley.Errorf(parley.CodeInvalid, "--server needs a URL").WithHint("write it like https://parley.example.org"))
	}
	if at.User != nil || at.RawQuery != "" || at.Fragment != "" {
		return usage(parley.Errorf(parley.CodeInvalid, "the URL of --server has more than an address").WithHint("a key comes from PARLEY_KEY or --key-file: everybody on this machine sees arguments"))
	}
	key := os.Getenv("PARLEY_KEY")
	if keyFile != "" {
		if key, err = keyOf(keyFile); err != nil {
			return usage(err)
		}
	}
	for _, name := range []string{"data", "store", "apps", "addr"} {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed {
			return usage(parley.Errorf(parley.CodeInvalid, "--%s is about a server on this machine, and --server names one elsewhere", name).WithHint("leave out one of them"))
		}
	}
	if key != "" && at.Scheme == "http" && !isLoopback(at.Host) && !isLoopback(at.Host+":80") {
		fmt.Fprintln(cmd.ErrOrStderr(), "parley: WARNING: the key goes over the network unencrypted; an https:// address would protect it")
	}
	// The environment's proxy settings apply, as for any HTTP client.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	connect := func(away func(error)) *client.Client {
		return client.New(client.Options{BaseURL: server, Token: key, Transport: transport, Insist: true, Away: away})
	}
	ctx := cmd.Context()
	l := &link{Client: client.New(client.Options{BaseURL: server, Token: key, Transport: transport})}
	_, err = l.Apps(ctx)
	if parley.CodeOf(err) == parley.CodeUnauthenticated && key == "" {
		t := terminal(cmd)
		if !t.CanAsk {
			return parley.Errorf(parley.CodeUnauthenticated, "%w", err).WithHint("give the key in PARLEY_KEY or with --key-file")
		}
		if key, err = t.Secret(ctx, "Key for "+at.Host); errors.Is(err, tui.ErrLeft) {
			return usage(parley.Errorf(parley.CodeInvalid, "no key was typed"))
		}
		if err == nil {
			l.Client = client.New(client.Options{BaseURL: server, Token: key, Transport: transport})
			_, err = l.Apps(ctx)
		}
	}
	if err != nil {
		return err
	}
	if session != "" {
		if o.Session, err = l.find(ctx, session); err != nil {
			return err
		}
	}
	o.Connect, o.Where = connect, at.Host
	left, err := chat.Run(ctx, o)
	return chatLeft(cmd, o, left, err)
}

// keyOf reads a key from a file.
func keyOf(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", parley.Errorf(parley.CodeInvalid, "--key-file: %w", err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxKey+1))
	if err != nil {
		return "", parley.Errorf(parley.CodeInvalid, "--key-file: %w", err)
	}
	key := strings.TrimSpace(string(raw))
	if key == "" || len(raw) > maxKey || strings.ContainsAny(key, " \t\r\n") {
		return "", parley.Errorf(parley.CodeInvalid, "--key-file: %s does not hold one key", name).WithHint("it holds the key, and nothing else")
	}
	return key, nil
}

// holdback is a command's standard error. While a screen is drawn, what is written to it would spoil
// the screen, so it is kept, the newest of it, and written afterwards.
type holdback struct {
	mu   sync.Mutex
	to   io.Writer
	on   bool
	kept bytes.Buffer
}

// maxHeldBack is how many bytes are kept.
const maxHeldBack = 64 << 10

func holdBack(cmd *cobra.Command, screen bool) *holdback {
	h := &holdback{to: cmd.ErrOrStderr()}
	if screen {
		cmd.SetErr(h)
	}
	return h
}

func (h *holdback) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.on = true
}

// Write implements io.Writer.
func (h *holdback) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.on {
		return h.to.Write(b)
	}
	if n := h.kept.Len() + len(b) - maxHeldBack; n > 0 {
		h.kept.Next(n)
	}
	h.kept.Write(b[max(len(b)-maxHeldBack, 0):])
	return len(b), nil
}

// release writes what was kept, and keeps no more.
func (h *holdback) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.on = false
	_, _ = h.to.Write(h.kept.Bytes())
	h.kept.Reset()
}
