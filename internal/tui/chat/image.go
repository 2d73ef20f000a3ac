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
	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/ansi/sixel"
	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // pictures of tools
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
	graphicsSixel
)

// screenFacts are what the terminal says about itself, if it does.
type screenFacts struct {
	sixel bool
	cell  image.Point // in pixels
}

// cellSize is what is taken for a terminal that does not say it.
var cellSize = image.Pt(10, 20)

// askScreen asks the terminal what it can show. One that does not know the questions does not answer.
func askScreen() tea.Cmd {
	return tea.Raw(ansi.RequestPrimaryDeviceAttributes + ansi.WindowOp(16))
}

// told takes in what the terminal said.
func (s *screenFacts) told(msg tea.Msg) {
	switch msg := msg.(type) {
	case uv.PrimaryDeviceAttributesEvent:
		s.sixel = slices.Contains(msg, 4)
	case uv.CellSizeEvent:
		if msg.Width > 1 && msg.Height > 1 && msg.Width < 200 && msg.Height < 400 {
			s.cell = image.Pt(msg.Width, msg.Height)
		}
	}
}

// graphics is how this terminal shows pictures: by the environment, or as it says itself. A multiplexer
// in between passes only on what it says that it knows.
func (m *model) graphics() graphics {
	if how := byName(m.o.Env); how != graphicsNone {
		return how
	}
	if m.screen.sixel {
		return graphicsSixel
	}
	return graphicsNone
}

func byName(env func(string) string) graphics {
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
			out = append(out, picturesOf(it.attached)...)
		}
	}
	for _, t := range slices.Backward(m.conv.turns) {
		walk(t.items)
		out = append(out, picturesOf(t.files)...)
	}
	return out
}

// picturesOf are the images among a message's files.
func picturesOf(files []parley.Part) (out []parley.ArtifactRef) {
	for _, f := range slices.Backward(files) {
		if strings.HasPrefix(f.MediaType, "image/") {
			out = append(out, parley.ArtifactRef{ID: f.Artifact, Name: f.Name, MediaType: f.MediaType, Size: f.Size})
		}
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
	how, w, h, cell := m.graphics(), m.w, m.h-3, m.screen.cell
	if cell == (image.Point{}) {
		cell = cellSize
	}
	return ask(m, func(ctx context.Context, c *client.Client) (string, error) {
		body, _, err := c.Artifact(ctx, a.ID)
		if err != nil {
			return "", err
		}
		defer body.Close()
		raw, err := io.ReadAll(io.LimitReader(body, maxPicture+1))
		if err != nil {
			return "", parley.Errorf(parley.CodeUnavailable, "read %s: %w", a.Name, err)
		}
		if len(raw) > maxPicture {
			return "", parley.Errorf(parley.CodeTooLarge, "%s is larger than %s", a.Name, size(maxPicture))
		}
		return picture(how, raw, w, h, cell)
	}, func(m *model, text string, err error) tea.Cmd {
		if err != nil {
			m.fail(err)
			return nil
		}
		return tea.Exec(&shown{text: text, name: oneLine(a.Name)}, func(err error) tea.Msg {
			return doneMsg(func(m *model) tea.Cmd {
				if err != nil {
					m.fail(err)
				}
				return nil
			})
		})
	})
}

// decode decodes a picture, so that it is encoded again and a terminal's decoder gets nothing that a
// stranger made.
func decode(raw []byte) (image.Image, error) {
	c, _, err := image.DecodeConfig(bytes.NewReader(raw))
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "this picture cannot be shown here: %w", err)
	}
	if c.Width <= 0 || c.Height <= 0 || c.Width > maxPixels/c.Height {
		return nil, parley.Errorf(parley.CodeTooLarge, "the picture has %d x %d pixels", c.Width, c.Height)
	}
	img, _, err := image.Decode(bytes.NewReader(raw))
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "this picture cannot be shown here: %w", err)
	}
	return img, nil
}

// fitPicture is the size, in cells and in pixels, that a picture has on a screen of w x h cells: its own,
// unless that is too large.
func fitPicture(of image.Point, w, h int, cell image.Point) (cells, pixels image.Point) {
	room := image.Pt(max(w, 1)*cell.X, max(h, 1)*cell.Y)
	pixels = of
	if pixels.X > room.X {
		pixels = image.Pt(room.X, max(pixels.Y*room.X/pixels.X, 1))
	}
	if pixels.Y > room.Y {
		pixels = image.Pt(max(pixels.X*room.Y/pixels.Y, 1), room.Y)
	}
	return image.Pt((pixels.X+cell.X-1)/cell.X, (pixels.Y+cell.Y-1)/cell.Y), pixels
}

// picture is what a terminal is sent to show a picture within w x h cells.
func picture(how graphics, raw []byte, w, h int, cell image.Point) (string, error) {
	img, err := decode(raw)
	if err != nil {
		return "", err
	}
	cells, pixels := fitPicture(img.Bounds().Size(), w, h, cell)
	if pixels != img.Bounds().Size() { // no terminal needs more pixels than it has
		small := image.NewNRGBA(image.Rectangle{Max: pixels})
		draw.ApproxBiLinear.Scale(small, small.Bounds(), img, img.Bounds(), draw.Src, nil)
		img = small
	}
	var b bytes.Buffer
	if how == graphicsSixel {
		if err := new(sixel.Encoder).Encode(&b, img); err != nil {
			return "", parley.Errorf(parley.CodeInternal, "encode the picture: %w", err)
		}
		return ansi.SixelGraphics(0, 1, 0, b.Bytes()), nil
	}
	if err := png.Encode(&b, img); err != nil {
		return "", parley.Errorf(parley.CodeInternal, "encode the picture: %w", err)
	}
	text := base64.StdEncoding.EncodeToString(b.Bytes())
	if how == graphicsITerm {
		return fmt.Sprintf("\x1b]1337;File=inline=1;size=%d;width=%d;height=%d;preserveAspectRatio=1:%s\a", b.Len(), cells.X, cells.Y, text), nil
	}
	var out strings.Builder
	for first := true; first || text != ""; first = false {
		n := min(len(text), 4096)
		more := 0
		if n < len(text) {
			more = 1
		}
		if first {
			fmt.Fprintf(&out, "\x1b_Ga=T,f=100,q=2,c=%d,r=%d,m=%d;%s\x1b\\", cells.X, cells.Y, more, text[:n])
		} else {
			fmt.Fprintf(&out, "\x1b_Gm=%d;%s\x1b\\", more, text[:n])
		}
		text = text[n:]
	}
	return out.String(), nil
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
