package chat

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	_ "image/gif"  // pictures of tools
	_ "image/jpeg" // pictures of tools
	"image/png"
	"io"
	"os"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// graphics is how a terminal shows pictures.
type graphics int

const (
	graphicsNone graphics = iota
	graphicsKitty
	graphicsITerm
)

// graphics finds out by the environment how this terminal shows pictures. A multiplexer in between
// passes none on.
func (m *model) graphics() graphics {
	env := m.o.Env
	name, program := env("TERM"), env("TERM_PROGRAM")
	switch {
	case env("TMUX") != "", strings.HasPrefix(name, "screen"), strings.HasPrefix(name, "tmux"):
		return graphicsNone
	case env("KITTY_WINDOW_ID") != "", name == "xterm-kitty", name == "xterm-ghostty", program == "ghostty":
		return graphicsKitty
	case program == "iTerm.app", program == "WezTerm", program == "mintty", program == "vscode", env("LC_TERMINAL") == "iTerm2":
		return graphicsITerm
	}
	return graphicsNone
}

// maxPicture is how many bytes of a picture are read, and maxPixels how large it may be.
const (
	maxPicture = 8 << 20
	maxPixels  = 40 << 20
)

// pictures are those of the conversation, the newest first.
func (m *model) pictures() []parley.ArtifactRef {
	var out []parley.ArtifactRef
	var walk func(list []*item)
	walk = func(list []*item) {
		for _, it := range slices.Backward(list) {
			walk(it.inner)
			out = append(out, it.images...)
		}
	}
	for _, t := range slices.Backward(m.conv.turns) {
		walk(t.items)
	}
	return out
}

func (m *model) chooseImage() tea.Cmd {
	all := m.pictures()
	switch {
	case m.graphics() == graphicsNone:
		m.say("This terminal shows no pictures, as far as it says.")
		return nil
	case len(all) == 0:
		m.say("There is no picture in this conversation.")
		return nil
	case len(all) == 1:
		return m.showImage(all[0])
	}
	l := &list1{title: "Which picture?"}
	for i, a := range all {
		l.add(fmt.Sprint(i), oneLine(a.Name), oneLine(a.MediaType)+" "+size(a.Size))
	}
	return m.pickOne(l, "", func(m *model, id string) tea.Cmd {
		for i, a := range all {
			if fmt.Sprint(i) == id {
				return m.showImage(a)
			}
		}
		return nil
	})
}

// showImage reads a picture, and shows it on a screen of its own until a key is pressed.
func (m *model) showImage(a parley.ArtifactRef) tea.Cmd {
	how, w, h := m.graphics(), m.w, m.h
	return ask(m, func(ctx context.Context, c *client.Client) ([]byte, error) {
		body, _, err := c.Artifact(ctx, a.ID)
		if err != nil {
			return nil, err
		}
		defer body.Close()
		raw, err := io.ReadAll(io.LimitReader(body, maxPicture+1))
		if err != nil {
			return nil, parley.Errorf(parley.CodeUnavailable, "read %s: %w", a.Name, err)
		}
		if len(raw) > maxPicture {
			return nil, parley.Errorf(parley.CodeTooLarge, "%s is larger than %s", a.Name, size(maxPicture))
		}
		return asPNG(raw)
	}, func(m *model, raw []byte, err error) tea.Cmd {
		if err != nil {
			m.fail(err)
			return nil
		}
		return tea.Exec(&shown{text: picture(how, raw, w, h-3), name: oneLine(a.Name)}, func(err error) tea.Msg {
			return doneMsg(func(m *model) tea.Cmd {
				if err != nil {
					m.fail(err)
				}
				return nil
			})
		})
	})
}

// asPNG decodes a picture and encodes it again, so that a terminal's decoder gets nothing that a
// stranger made.
func asPNG(raw []byte) ([]byte, error) {
	c, _, err := image.DecodeConfig(bytes.NewReader(raw))
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "this picture cannot be shown here: %w", err)
	}
	if c.Width*c.Height > maxPixels {
		return nil, parley.Errorf(parley.CodeTooLarge, "the picture has %d x %d pixels", c.Width, c.Height)
	}
	img, _, err := image.Decode(bytes.NewReader(raw))
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "this picture cannot be shown here: %w", err)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		return nil, parley.Errorf(parley.CodeInternal, "encode the picture: %w", err)
	}
	return b.Bytes(), nil
}

// picture is what a terminal is sent to show a picture.
func picture(how graphics, raw []byte, w, h int) string {
	text := base64.StdEncoding.EncodeToString(raw)
	if how == graphicsITerm {
		return fmt.Sprintf("\x1b]1337;File=inline=1;size=%d;width=%d;height=%d;preserveAspectRatio=1:%s\a", len(raw), w, h, text)
	}
	var b strings.Builder
	for first := true; first || text != ""; first = false {
		n := min(len(text), 4096)
		more := 0
		if n < len(text) {
			more = 1
		}
		if first {
			fmt.Fprintf(&b, "\x1b_Ga=T,f=100,q=2,c=%d,m=%d;%s\x1b\\", w, more, text[:n])
		} else {
			fmt.Fprintf(&b, "\x1b_Gm=%d;%s\x1b\\", more, text[:n])
		}
		text = text[n:]
	}
	return b.String()
}

// shown has the terminal for a picture.
type shown struct {
	text, name string
	in         io.Reader
	out        io.Writer
}

func (s *shown) SetStdin(r io.Reader)  { s.in = r }
func (s *shown) SetStdout(w io.Writer) { s.out = w }
func (s *shown) SetStderr(io.Writer)   {}

// Run shows the picture until a key is pressed.
func (s *shown) Run() error {
	if _, err := fmt.Fprintf(s.out, "\x1b[2J\x1b[H%s\r\n%s: press a key\r\n", s.text, s.name); err != nil {
		return err
	}
	if f, ok := s.in.(*os.File); ok {
		was, err := term.MakeRaw(int(f.Fd()))
		if err == nil {
			defer func() { _ = term.Restore(int(f.Fd()), was) }()
		}
		_, _ = bufio.NewReaderSize(f, 16).ReadByte()
	}
	_, err := io.WriteString(s.out, "\x1b[2J\x1b[H")
	return err
}
