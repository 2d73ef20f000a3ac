package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/edge"
)

// stopGrace is how long running turns may go on when the server stops.
const stopGrace = 20 * time.Second

func newServe(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Start the server", Args: cobra.NoArgs,
		Long: `Start the server. It prints "listening on http://HOST:PORT" when it is ready;
--addr 127.0.0.1:0 takes any free port. SIGTERM and SIGINT stop it: streams end,
running turns get up to 20 s, and what is left is found at the next start. On a
full disk it starts, is not ready, and goes on once there is room.

On this machine nobody has to log in. At an address that others reach, everybody
needs a key: see parley keys. --addon is for Home Assistant, which runs it so.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.settings(cmd)
			if err != nil {
				return err
			}
			return f.serve(cmd, s, "serve")
		},
	}
	cmd.Flags().StringVar(&f.addon, "addon", "", "run as a Home Assistant add-on, with the options in `file`")
	cmd.Flags().Lookup("addon").NoOptDefVal = config.AddonOptions
	return cmd
}

func newDemo(f *flags) *cobra.Command {
	var login bool
	var simulations []func(*config.Settings, *slog.Logger) (func(), error)
	cmd := &cobra.Command{
		Use: "demo", Short: "Start the server with every built-in app and demo data", Args: cobra.NoArgs,
		Long: `Start the server with every built-in app, its demo data, and a scripted demo
model: no key, no network. Apps of your own in the folder of --apps come beside
them.

The app home gets a simulated house, unless HOME_ASSISTANT_URL names a real one.
It is only looked at, as a real one is, until --allow or the settings say what
agents may do there, after asking: --allow light.turn_on,light.turn_off.

The app leads gets a simulated CRM with a page of its own, unless
PLG_API_BASE_URL names a real API.

With --login people sign in first, at a simulated provider where they pick who to be.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.settings(cmd)
			if err != nil {
				return err
			}
			s.Enabled = nil
			if login {
				defer demoLogin(&s, newLogger(s, cmd.ErrOrStderr()))()
			}
			if s.CORSOrigins == nil {
				s.CORSOrigins = []string{config.DevOrigin}
			}
			for _, start := range simulations {
				stop, err := start(&s, newLogger(s, cmd.ErrOrStderr()))
				if parley.CodeOf(err) == parley.CodeInvalid {
					return usage(err)
				}
				if err != nil {
					return err
				}
				if stop != nil {
					defer stop()
				}
			}
			return f.serve(cmd, s, "demo")
		},
	}
	cmd.Flags().BoolVar(&login, "login", false, "ask people to sign in, at a simulated provider")
	for _, a := range f.kit.apps {
		if a.Demo != nil {
			simulations = append(simulations, a.Demo(cmd.Flags()))
		}
	}
	return cmd
}

func (f *flags) serve(cmd *cobra.Command, s config.Settings, command string) error {
	ctx, out, errs := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	log := newLogger(s, errs)
	at, err := storeOf(s)
	if err != nil {
		return err
	}
	who, err := newEntrance(s)
	if err != nil {
		if parley.CodeOf(err) == parley.CodeUnavailable {
			return err
		}
		return usage(err)
	}
	p, err := f.kit.plan(s, log)
	if err != nil {
		return usage(err)
	}
	who.issuers, who.apps, p.keys, p.mode = p.issuers, tokens{p}, who.keys, who.mode
	own, err := lockForServer(ctx, s.Data, command, func(h holder) {
		log.Warn("the data folder is in use; the server starts when it is free", "by", h.String(), "within", inUseWithin)
	})
	if held, ok := errors.AsType[*errHeld](err); ok {
		return refusedTo(s.Data, held)
	}
	if err != nil {
		if errors.Is(err, context.Cause(ctx)) {
			return nil // it was stopped while it waited
		}
		return err
	}
	defer own.release()
	tcp, err := listenTCP(s.Addr)
	if err != nil {
		return err
	}
	defer tcp.Close()
	ports, err := pageListeners(s, who)
	if err != nil {
		return err
	}
	defer closeAll(ports)
	p.pageURL = pageURLs(s, tcp.Addr(), ports)
	ours, _ := net.InterfaceAddrs() // without them it is localhost alone
	urls := urlsOf(tcp.Addr(), ours)
	address := urls[0]
	listening := sync.OnceFunc(func() {
		fmt.Fprintf(out, "listening on %s\n", address)
		for _, other := range urls[1:] {
			fmt.Fprintf(out, "from other machines: %s\n", other)
		}
	})
	p.took(own)
	p.listens(tcp.Addr())
	for _, a := range f.kit.apps {
		if a.Listening != nil {
			a.Listening(address)
		}
	}
	p.kill = f.killer(command, who, s.Addr, tcp.Addr().String(), log)
	var unix net.Listener
	var path string
	var h *house
	err = onceThereIsRoom(ctx, tcp, listening, s.Limits, log, func() (err error) {
		if unix == nil {
			if unix, path, err = listenSocket(s.Data); err != nil {
				return err
			}
		}
		if h == nil {
			if h, err = p.build(ctx, who.notices, log); err != nil {
				return err
			}
		}
		return own.listening(address, path)
	})
	if unix != nil {
		unix = socketOf{unix, own.held}
		defer unix.Close()
	}
	if err != nil {
		if h != nil {
			_ = h.close(ctx, 0)
		}
		if errors.Is(err, context.Cause(ctx)) {
			return nil // it was stopped while it waited
		}
		return err
	}
	if _, err := h.engine.Recover(ctx); err != nil {
		_ = h.close(ctx, 0)
		return err
	}
	listening()
	greet(out, h, s, at, who)
	if command == "demo" {
		f.kit.look(out)
		fmt.Fprintf(out, "Open %s in a browser. Ctrl-C stops it.\n", address)
	}
	watch, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { who.keys.Watch(watch, keysEvery) })
	if h.access.SignIns != nil {
		beside.Go(func() { h.access.SignIns.Watch(watch, keysEvery) })
	}
	beside.Go(func() { giveBack(watch) })
	beside.Go(func() { h.anew.run(watch) })
	beside.Go(func() { h.push.Run(watch) })
	beside.Go(func() { h.defineAll(watch); h.schedules.Run(watch) })
	defer func() { stop(); beside.Wait() }()
	open := []door{
		{tcp, h.behind(api.GuardOptions{Hosts: who.hosts(s), Origins: s.CORSOrigins}, who.doorOptions(ownNames(s)))},
		{unix, h.owner()},
	}
	for _, app := range names(ports) {
		at := s
		at.Addr = s.Pages[app]
		open = append(open, door{ports[app], h.behind(api.GuardOptions{Hosts: who.hosts(at)}, who.doorOptions(ownAt(app)))})
	}
	return h.serve(ctx, log, open...)
}

func hostOf(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return host
}

func greet(out io.Writer, h *house, s config.Settings, at storePlace, who *entrance) {
	var list, models []string
	scripted := true
	for _, a := range h.apps {
		list = append(list, a.Name)
		if m, err := h.engine.Model(a.Model); err == nil && !slices.Contains(models, m.Name) {
			models = append(models, m.Name)
			scripted = scripted && m.Scripted
		}
	}
	fmt.Fprintf(out, "apps: %s\n", strings.Join(list, ", "))
	for _, name := range names(h.off) {
		fmt.Fprintf(out, "off: %s: %s\n", name, h.off[name])
	}
	for _, name := range names(h.plan.broken) {
		fmt.Fprintf(out, "off: %s has mistakes; it is served once they are fixed:\n", name)
		for _, m := range h.plan.broken[name].mistakes() {
			fmt.Fprintf(out, "  %s\n", m)
		}
	}
	for _, line := range h.sayPages(isLoopback(s.Addr)) {
		fmt.Fprintln(out, line)
	}
	fmt.Fprintf(out, "data: %s\n", s.Data)
	if at.kind != "sqlite" {
		fmt.Fprintf(out, "store: %s\n", at.shown)
	}
	if how := who.says(); how != "" {
		fmt.Fprintln(out, how)
	}
	if scripted {
		fmt.Fprintf(out, "The model is scripted: it follows the rules of the apps' scripts, and no language model is asked.\n")
	} else {
		fmt.Fprintf(out, "models: %s\n", strings.Join(models, ", "))
	}
	for _, n := range who.notices {
		fmt.Fprintln(out, "WARNING:", n)
	}
}

// look says what else parley demo has to look at.
func (k *kit) look(out io.Writer) {
	for _, a := range k.apps {
		if a.Look == nil {
			continue
		}
		if line := a.Look(); line != "" {
			fmt.Fprintln(out, line)
		}
	}
}

// door is a listener and its handler.
type door struct {
	l net.Listener
	h http.Handler
}

// serve answers at the doors until ctx ends. Then it stops in order: no new commands,
// running turns to their end, streams, connections, the store.
func (h *house) serve(ctx context.Context, log *slog.Logger, doors ...door) error {
	failed := make(chan error, len(doors))
	var servers []*edge.Server
	for _, d := range doors {
		srv := newServer(d.h, h.limits, log)
		servers = append(servers, srv)
		go func() { failed <- srv.Serve(d.l) }()
	}
	var err error
	ended, grace := 0, stopGrace
	select {
	case <-ctx.Done():
		log.Info("stopping", "grace", grace)
	case err = <-failed:
		ended++
	case <-h.taken:
		// Nothing that still runs can be stored.
		grace = 0
		err = parley.Errorf(parley.CodeConflict, "another server uses the database now: this one lost its connection").
			WithHint("only one server can use a database; stop one of the two, or give each its own database")
	}
	err = errors.Join(err, h.close(ctx, grace)) // ends the streams
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	for _, srv := range servers {
		if srv.Shutdown(rest) != nil {
			_ = srv.Close()
		}
	}
	for ; ended < len(servers); ended++ {
		if e := <-failed; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}
