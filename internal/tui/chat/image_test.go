package chat

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi/sixel"
)

// A picture is made to fit the screen, for each way in which terminals show them.
func TestPicture(t *testing.T) {
	t.Parallel()
	img := image.NewRGBA(image.Rect(0, 0, 400, 1000))
	for y := range 1000 {
		for x := range 400 {
			img.Set(x, y, color.RGBA{R: uint8(x / 2), G: 0x80, A: 0xff})
		}
	}
	var raw bytes.Buffer
	if err := png.Encode(&raw, img); err != nil {
		t.Fatal(err)
	}
	// A screen of 80 x 20 cells has 800 x 400 pixels, so 160 x 400 are left of it: 16 columns.
	text, err := picture(graphicsSixel, raw.Bytes(), 80, 20, cellSize)
	if err != nil {
		t.Fatal(err)
	}
	data, ok := strings.CutPrefix(text, "\x1bP0;1q")
	if !ok || !strings.HasSuffix(data, "\x1b\\") {
		t.Fatalf("no sixels: %q", text[:20])
	}
	got, err := new(sixel.Decoder).Decode(strings.NewReader(data))
	if err != nil || got.Bounds().Dx() != 160 || got.Bounds().Dy() < 400 || got.Bounds().Dy() > 405 {
		t.Errorf("the sixels are %v, %v", got.Bounds(), err)
	}
	for how, begins := range map[graphics]string{graphicsKitty: "\x1b_Ga=T,f=100,q=2,c=16,r=20,m=", graphicsITerm: "\x1b]1337;File=inline=1;size="} {
		text, err := picture(how, raw.Bytes(), 80, 20, cellSize)
		if err != nil || !strings.HasPrefix(text, begins) {
			t.Errorf("%d: %.60q, %v", how, text, err)
		}
	}
	small, err := picture(graphicsKitty, pngOf(t, 3, 3), 80, 20, cellSize)
	if err != nil || !strings.HasPrefix(small, "\x1b_Ga=T,f=100,q=2,c=1,r=1,m=0;") {
		t.Errorf("a small one: %q, %v", small, err)
	}
	if _, data, ok := strings.Cut(strings.TrimSuffix(small, "\x1b\\"), ";"); !ok || !strings.HasPrefix(data, base64.StdEncoding.EncodeToString([]byte("\x89PN"))) {
		t.Errorf("it is no PNG: %q", small)
	}
	for _, bad := range [][]byte{nil, []byte("GIF89a"), raw.Bytes()[:100]} {
		if text, err := picture(graphicsSixel, bad, 80, 20, cellSize); err == nil {
			t.Errorf("a broken one gives %.40q", text)
		}
	}
}

func pngOf(t *testing.T, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A terminal is believed what it says, and what its name says comes first.
func TestGraphics(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  map[string]string
		says uv.PrimaryDeviceAttributesEvent
		want graphics
	}{
		{map[string]string{"TERM": "xterm-256color"}, uv.PrimaryDeviceAttributesEvent{64, 1, 2}, graphicsNone},
		{map[string]string{"TERM": "xterm-256color"}, uv.PrimaryDeviceAttributesEvent{64, 1, 4}, graphicsSixel},
		{map[string]string{"TERM": "foot"}, uv.PrimaryDeviceAttributesEvent{62, 4, 22}, graphicsSixel},
		{map[string]string{"TERM": "xterm-kitty"}, uv.PrimaryDeviceAttributesEvent{62}, graphicsKitty},
		{map[string]string{"TERM": "tmux-256color", "TMUX": "x", "KITTY_WINDOW_ID": "1"}, uv.PrimaryDeviceAttributesEvent{1, 2}, graphicsNone},
		{map[string]string{"TERM": "tmux-256color", "TMUX": "x"}, uv.PrimaryDeviceAttributesEvent{1, 2, 4}, graphicsSixel},
		{map[string]string{"TERM_PROGRAM": "iTerm.app"}, nil, graphicsITerm},
	} {
		m := &model{o: Options{Env: func(name string) string { return c.env[name] }}}
		m.screen.told(c.says)
		if got := m.graphics(); got != c.want {
			t.Errorf("%v that says %v: %d, want %d", c.env, c.says, got, c.want)
		}
	}
}
