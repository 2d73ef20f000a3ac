package chat

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/parley-server/parley"
)

// within bounds what a test waits for.
const within = time.Minute

// Person sits at a screen.
type Person struct {
	t    *testing.T
	m    *model // what M returns
	msgs chan tea.Msg
	gone bool // the program has ended
}

// Sit starts a chat.
func Sit(t *testing.T, o Options, w, h int) *Person {
	t.Helper()
	p := &Person{t: t, m: newModel(t.Context(), o), msgs: make(chan tea.Msg, 1024)}
	t.Cleanup(p.m.end)
	p.do(p.m.Init())
	p.Gets(tea.WindowSizeMsg{Width: w, Height: h})
	return p
}

// do runs a command as the program would.
func (p *Person) do(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	go func() {
		switch msg := cmd().(type) {
		case nil:
		case tea.BatchMsg:
			for _, c := range msg {
				p.do(c)
			}
		case tea.QuitMsg:
			p.msgs <- msg
		default:
			if list := reflect.ValueOf(msg); list.Kind() == reflect.Slice && list.Type().Elem() == reflect.TypeFor[tea.Cmd]() { // a sequence
				for i := range list.Len() {
					p.do(list.Index(i).Interface().(tea.Cmd))
				}
				return
			}
			select {
			case p.msgs <- msg:
			case <-p.t.Context().Done():
			}
		}
	}()
}

func (p *Person) Gets(msg tea.Msg) {
	if _, ok := msg.(tea.QuitMsg); ok {
		p.gone = true
		return
	}
	_, cmd := p.m.Update(msg)
	p.do(cmd)
}

// Screen is what is on the screen, without styles.
func (p *Person) Screen() string {
	lines := strings.Split(ansi.Strip(p.m.View().Content), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// Until waits until something is so.
func (p *Person) Until(what string, is func() bool) {
	p.t.Helper()
	late := time.After(within)
	for !is() {
		select {
		case msg := <-p.msgs:
			p.Gets(msg)
		case <-late:
			p.t.Fatalf("%s: never; the screen is\n%s", what, p.Screen())
		}
	}
	p.Fits()
}

// Sees waits until all texts are on the screen.
func (p *Person) Sees(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		p.Until(fmt.Sprintf("%q is on the screen", text), func() bool { return strings.Contains(p.Screen(), text) })
	}
}

// Fits fails the test if a line is wider than the screen, or there are too many, or something is
// there that a terminal would obey.
func (p *Person) Fits() {
	p.t.Helper()
	content := p.m.View().Content
	lines := strings.Split(content, "\n")
	if len(lines) > p.m.h {
		p.t.Fatalf("%d lines on a screen of %d:\n%s", len(lines), p.m.h, p.Screen())
	}
	for _, line := range lines {
		if w := ansi.StringWidth(line); w > p.m.w {
			p.t.Fatalf("a line is %d wide on a screen of %d: %q", w, p.m.w, line)
		}
	}
	harmless(p.t, content)
}

// harmless fails the test if a text has anything but styles that a terminal would obey.
func harmless(t *testing.T, s string) {
	t.Helper()
	for i := 0; i < len(s); {
		if s[i] == 0x1b {
			end := i + 1
			if end < len(s) && s[end] == '[' {
				for end++; end < len(s) && (s[end] >= '0' && s[end] <= '9' || s[end] == ';' || s[end] == ':'); end++ {
				}
				if end < len(s) && s[end] == 'm' {
					i = end + 1
					continue
				}
			}
			t.Fatalf("an escape sequence that is no style: %q", s[i:min(i+24, len(s))])
		}
		r := []rune(s[i:min(i+4, len(s))])[0]
		if r < ' ' && r != '\n' || r >= 0x7f && r <= 0x9f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			t.Fatalf("the character %U in %q", r, s[max(i-10, 0):min(i+20, len(s))])
		}
		i += len(string(r))
	}
}

var keyCodes = map[string]rune{
	"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight,
	"pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "backspace": tea.KeyBackspace, "delete": tea.KeyDelete, "space": tea.KeySpace,
}

func keyOf(name string) tea.KeyPressMsg {
	k := tea.Key{}
	for {
		switch {
		case strings.HasPrefix(name, "ctrl+"):
			k.Mod |= tea.ModCtrl
			name = name[5:]
		case strings.HasPrefix(name, "alt+"):
			k.Mod |= tea.ModAlt
			name = name[4:]
		case strings.HasPrefix(name, "shift+"):
			k.Mod |= tea.ModShift
			name = name[6:]
		default:
			if code, ok := keyCodes[name]; ok {
				k.Code = code
				if name == "space" {
					k.Text = " "
				}
			} else {
				k.Code = []rune(name)[0]
				if k.Mod == 0 {
					k.Text = name
				}
			}
			return tea.KeyPressMsg(k)
		}
	}
}

// Presses presses keys.
func (p *Person) Presses(names ...string) {
	p.t.Helper()
	for _, name := range names {
		p.Gets(keyOf(name))
	}
	p.Fits()
}

// Types types a text.
func (p *Person) Types(text string) {
	p.t.Helper()
	for _, r := range text {
		if r == ' ' {
			p.Presses("space")
		} else {
			p.Presses(string(r))
		}
	}
}

// Pastes pastes a text.
func (p *Person) Pastes(text string) {
	p.t.Helper()
	p.Gets(tea.PasteMsg{Content: text})
	p.Fits()
}

// Rests lets time pass without a key.
func (p *Person) Rests() {
	p.m.pressed = p.m.pressed.Add(-time.Minute)
	p.Gets(tickMsg(time.Now()))
}

// Asked waits for a question that has the keyboard.
func (p *Person) Asked(title string) {
	p.t.Helper()
	p.Until("the question "+title, func() bool {
		return p.m.asking != nil && p.m.asking.armed && strings.Contains(p.Screen(), title)
	})
}

// Resize changes the size of the screen.
func (p *Person) Resize(w, h int) { p.Gets(tea.WindowSizeMsg{Width: w, Height: h}); p.Fits() }

// Fails is the error that the program ends with.
func (p *Person) Fails() error { return p.m.fatal }

// Looks returns what a test has to know beyond what is on the screen.
func (p *Person) Looks() Look {
	l := Look{Written: p.m.ed.text, Raw: p.m.View().Content, Gone: p.gone, Asks: p.m.asking != nil}
	if a := p.m.asking; a != nil {
		l.Armed, l.Sent = a.armed, a.busy
	}
	if c := p.m.conv; c != nil {
		l.Session, l.Mode, l.Queued, l.Running = c.info.ID, c.mode, len(c.queue), c.running() != nil
		for _, t := range c.turns {
			if !t.rewound {
				l.Turns++
			}
			for _, it := range t.items {
				l.Kept = append(l.Kept, it.text+it.output+it.label+string(it.input))
			}
		}
	}
	return l
}

// Look is the state of a chat.
type Look struct {
	Written           string // the message so far
	Raw               string // the screen with its styles
	Gone              bool
	Asks, Armed, Sent bool // a question is shown, has the keyboard, and its answer is on its way
	Session           parley.SessionID
	Mode              parley.PermissionMode
	Queued, Turns     int
	Running           bool
	Kept              []string // what is kept of the items
}
