package chat

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// model is the state of the screen.
type model struct {
	ctx      context.Context // of Run: commands of Bubble Tea get no other
	cancel   context.CancelFunc
	o        Options
	client   *client.Client // for requests
	followed *client.Client // for the stream, which says whether the server is there
	aways    chan error
	fatal    error // ends the program

	w, h    int
	look    *look
	now     time.Time
	screen  screenFacts
	ticking bool
	mouse   bool
	pressed time.Time // when a key was last pressed

	apps []client.App
	off  []client.AppOff
	app  *client.App

	conv      *conversation
	draft     *draft // a session that is made with its first message
	opening   parley.SessionID
	following *following
	view      viewport
	loading   bool // older turns are read
	untrimmed int  // frames since the conversation was last trimmed
	details   bool // of all items are shown

	ed       *editor
	menu     *menu
	panel    panel
	asking   *asking
	attached []*file // go with the next message
	sending  []*sent // the first is on its way, and the others follow
	early    bool    // a message was entered before there was a session for it; see sendEarly
	commands []parley.SlashCommand
	files    *fileList
	paths    *pathList

	away    error     // the server does not answer
	awayAt  time.Time // since when
	message string    // about what was done last
	bad     bool      // the message is an error
	until   time.Time // when it goes; zero: it stays
	leaving time.Time // Ctrl-C was pressed then, and once more leaves
	escaped time.Time // Esc was pressed then, and had nothing to do
}

// draft is a session before its first message.
type draft struct {
	app       string
	workspace parley.Workspace
	title     string
	model     string
	runtime   string
	mode      parley.PermissionMode
}

// sent is a message that the server has not accepted yet.
type sent struct {
	text  string
	busy  parley.BusyMode
	files []*file
	up    uploading
	stop  context.CancelFunc // stops the upload; nil: there is none
}

func newModel(ctx context.Context, o Options) *model {
	ctx, cancel := context.WithCancel(ctx)
	if o.Own == nil {
		o.Own = func() bool { return false }
	}
	m := &model{
		ctx: ctx, cancel: cancel, o: o, aways: make(chan error, 16), look: newLook(true, utf8Terminal(o.Env), 1),
		now: time.Now(), ed: newEditor(), mouse: true, w: 80, h: 24,
	}
	m.view.reset()
	tell := func(err error) {
		select {
		case m.aways <- err:
		case <-ctx.Done():
		}
	}
	m.followed = o.Connect(tell)
	m.client = o.Connect(func(error) {})
	return m
}

func (m *model) end() {
	m.unfollow()
	m.cancel()
}

func (m *model) left() Left {
	if m.conv == nil {
		return Left{}
	}
	return Left{Session: m.conv.info.ID, Busy: m.conv.running() != nil || len(m.conv.queue) > 0}
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd {
	return tea.Batch(tea.RequestBackgroundColor, askScreen(), m.watchAway, m.begin())
}

func (m *model) watchAway() tea.Msg {
	select {
	case err := <-m.aways:
		return awayMsg{err}
	case <-m.ctx.Done():
		return nil
	}
}

type begun struct {
	apps   []client.App
	server client.Server
}

// begin reads what the server offers, and opens what Options say.
func (m *model) begin() tea.Cmd {
	return ask(m, func(ctx context.Context, c *client.Client) (begun, error) {
		apps, err := c.Apps(ctx)
		if err != nil {
			return begun{}, err
		}
		server, err := c.Server(ctx)
		return begun{apps, server}, err
	}, func(m *model, b begun, err error) tea.Cmd {
		if err != nil {
			if final(err) {
				m.fatal = err
				return tea.Quit
			}
			m.away, m.awayAt = err, m.now
			return tea.Batch(m.tick(), func() tea.Msg {
				select {
				case <-time.After(time.Second):
				case <-m.ctx.Done():
				}
				return doneMsg(func(m *model) tea.Cmd { return m.begin() })
			})
		}
		m.away = nil
		m.apps, m.off = b.apps, b.server.Off
		switch {
		case m.o.Session != "":
			return m.openSession(m.o.Session)
		case m.o.App != "":
			if err := m.o.begins(m.appNamed(m.o.App)); err != nil {
				m.fatal = err
				return tea.Quit
			}
			return m.newSession(m.o.draft())
		}
		return m.chooseSession()
	})
}

func (m *model) appNamed(name string) *client.App {
	for i := range m.apps {
		if m.apps[i].Name == name {
			return &m.apps[i]
		}
	}
	return nil
}

type tickMsg time.Time

// busy reports whether something on the screen changes with time.
func (m *model) busy() bool {
	return m.away != nil || len(m.sending) > 0 || m.opening != "" || !m.until.IsZero() || m.conv != nil && m.conv.running() != nil || m.asking != nil && !m.asking.armed
}

// tick makes the screen change with time, if something does.
func (m *model) tick() tea.Cmd {
	if m.ticking || !m.busy() {
		return nil
	}
	m.ticking = true
	return tea.Tick(120*time.Millisecond, func(t time.Time) tea.Msg { return tickMsg(t) })
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.now = time.Now()
	cmd := m.update(msg)
	return m, tea.Batch(cmd, m.tick())
}

func (m *model) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.w, m.h = max(msg.Width, 10), max(msg.Height, 4)
	case tea.BackgroundColorMsg:
		if dark := msg.IsDark(); dark != m.look.dark {
			m.look = newLook(dark, utf8Terminal(m.o.Env), m.look.rev+1)
		}
	case uv.PrimaryDeviceAttributesEvent, uv.CellSizeEvent:
		m.screen.told(msg)
		m.look.rev++
	case tickMsg:
		m.ticking = false
		if !m.until.IsZero() && m.now.After(m.until) {
			m.message, m.until = "", time.Time{}
		}
		m.arm()
	case doneMsg:
		return msg(m)
	case awayMsg:
		if m.away == nil && msg.err != nil {
			m.awayAt = m.now
		}
		if m.away != nil && msg.err == nil {
			m.say("The server is back.")
		}
		m.away = msg.err
		return m.watchAway
	case framesMsg:
		return m.received(msg)
	case tea.KeyPressMsg:
		m.pressed = m.now
		return m.key(msg)
	case tea.PasteMsg:
		m.pressed = m.now
		return m.pasted(msg.Content)
	case tea.MouseWheelMsg:
		return m.wheel(msg.Mouse())
	case tea.MouseClickMsg:
		m.click(msg.Mouse())
	}
	return nil
}

// received shows what happened in the session.
func (m *model) received(msg framesMsg) tea.Cmd {
	if msg.of != m.following {
		return nil
	}
	for _, f := range msg.frames {
		m.conv.take(f)
	}
	if msg.err != nil {
		m.unfollow()
		m.fail(msg.err)
		if parley.CodeOf(msg.err) == parley.CodeNotFound {
			m.say("This session is deleted.")
			m.conv = nil
			return m.chooseSession()
		}
		m.sync()
		return nil
	}
	if m.conv.rewound {
		return m.openSession(m.conv.info.ID)
	}
	m.sync()
	if m.untrimmed += len(msg.frames); m.conv.stale || m.untrimmed > trimEvery {
		m.untrimmed = 0
		m.conv.trim(m.view.follow)
		m.view.place(m.conv)
	}
	if m.conv.stale {
		m.conv.stale = false
		return tea.Batch(msg.of.next, m.readTotals())
	}
	return msg.of.next
}

// trimEvery is after how many frames it is looked whether the conversation has become too large.
const trimEvery = 2000

// readTotals reads what the session has used.
func (m *model) readTotals() tea.Cmd {
	conv := m.conv
	return ask(m, func(ctx context.Context, c *client.Client) (parley.SessionInfo, error) {
		return c.Session(ctx, conv.info.ID)
	},
		func(_ *model, s parley.SessionInfo, err error) tea.Cmd {
			if err == nil {
				conv.info.Totals, conv.info.Policy, conv.info.Title = s.Totals, s.Policy, s.Title
				conv.info.Runtime = s.Runtime
				if s.Model != "" {
					conv.info.Model = s.Model
				}
			}
			return nil
		})
}

// sync makes what is on the screen follow the conversation.
func (m *model) sync() {
	m.view.place(m.conv)
	m.syncAsking()
}

// say tells the person something for a while.
func (m *model) say(text string) {
	m.message, m.bad, m.until = text, false, m.now.Add(4*time.Second)
}

// fail tells the person what went wrong. It stays until a key is pressed.
func (m *model) fail(err error) {
	m.message, m.bad, m.until = errText(err), true, time.Time{}
}

func (m *model) drawing(w int) drawing {
	return drawing{look: m.look, width: w, open: m.details, now: m.now, images: m.graphics() != graphicsNone}
}

// paper is what the conversation is drawn with.
func (m *model) paper() drawing { return m.drawing(max(m.w-2, 8)) }

func (m *model) wheel(e tea.Mouse) tea.Cmd {
	if m.panel != nil {
		if l, ok := m.panel.(*list); ok {
			by := 3
			if e.Button == tea.MouseWheelUp {
				by = -3
			}
			n := len(l.matching())
			l.at = min(max(l.at+by, 0), max(n-1, 0))
			return l.further(m, n)
		}
		return nil
	}
	switch e.Button {
	case tea.MouseWheelUp:
		return m.scroll(-3)
	case tea.MouseWheelDown:
		return m.scroll(3)
	}
	return nil
}

// scroll moves through the conversation, and reads what is older when its beginning is reached.
func (m *model) scroll(by int) tea.Cmd {
	if by > 0 {
		m.view.down(m.paper(), by)
		return nil
	}
	m.view.up(m.paper(), -by)
	m.view.window(m.paper(), m.view.height)
	if m.view.top {
		return m.readOlder(nil)
	}
	return nil
}

// readOlder reads what comes before what is shown, and then does the rest.
func (m *model) readOlder(then func(m *model) tea.Cmd) tea.Cmd {
	c := m.conv
	if c == nil || m.loading || len(c.turns) == 0 {
		return nil
	}
	first := c.turns[0]
	if first.from == 0 && c.older == "" {
		return nil
	}
	m.loading = true
	type older struct {
		before []*turn
		part   *turn
		at     int64
		next   parley.TurnID
	}
	from, older0 := c.from, c.older
	return ask(m, func(ctx context.Context, cl *client.Client) (older, error) {
		before, part, at, next, err := readOlder(ctx, cl, c.info.ID, first, from, older0)
		return older{before, part, at, next}, err
	}, func(m *model, o older, err error) tea.Cmd {
		m.loading = false
		if m.conv != c {
			return nil
		}
		if err != nil {
			m.fail(err)
			return nil
		}
		at := m.view.at
		var it *item
		if at < len(m.view.list) {
			it = m.view.list[at].it
		}
		c.prepend(o.before, o.part, o.at, o.next)
		c.trim(false)
		m.view.place(c)
		if i := m.view.index(it); i >= 0 {
			m.view.at = i
		}
		if then != nil {
			return then(m)
		}
		return nil
	})
}

func (m *model) click(e tea.Mouse) {
	if e.Button != tea.MouseLeft || m.panel != nil && m.panel.full() {
		return
	}
	y := e.Y - m.headRows()
	if y < 0 || y >= len(m.view.rows) {
		return
	}
	if it := m.view.rows[y]; it != nil && it.folds() {
		m.toggle(it)
	}
}

func (m *model) toggle(it *item) {
	if m.paper().isOpen(it) {
		it.fold = foldShut
	} else {
		it.fold = foldOpen
	}
	it.rev++
}

func (m *model) pasted(text string) tea.Cmd {
	switch {
	case m.panel != nil:
		m.panel.paste(m, text)
	case m.asking != nil && m.asking.has() && m.asking.typing != typesNothing:
		m.asking.paste(m, text)
	case m.dropped(text):
	case m.asking != nil && m.asking.has() && m.asking.paste(m, text):
	default:
		m.ed.paste(text)
		m.complete()
		return m.readFiles()
	}
	return nil
}

func strip(s string) string { return ansi.Strip(s) }

func lower(parts ...string) string { return strings.ToLower(strings.Join(parts, " ")) }
