package config_test

import (
	"strings"
	"testing"
	"testing/fstest"
)

// TestPage: what an app says about its page is checked, and a mistake names its line.
func TestPage(t *testing.T) {
	t.Parallel()
	png := "\x89PNG\r\n\x1a\n0000"
	for _, c := range []struct{ name, yaml, logo, want string }{
		{"all_is_right", "title: Mine\naccent: \"#1F6FEB\"\nlogo: logo", png, ""},
		{"a_drawing", "logo: logo", "<?xml version='1.0'?>\n<!-- x --><svg xmlns='http://www.w3.org/2000/svg'/>", ""},
		{"no_colour", "accent: blue", "", `app.yaml:1: accent: "blue" is not a colour`},
		{"a_comment", "accent: #1f6feb", "", `app.yaml:1: accent: "" is not a colour; write it like "#1f6feb", in quotes`},
		{"a_rule_of_css", `accent: "#000;}*{x:url(//x)}"`, "", "is not a colour"},
		{"no_such_logo", "logo: gone.png", "", "app.yaml:1: logo: gone.png is missing"},
		{"logo_elsewhere", "logo: ../secret.png", "", "logo: "},
		{"a_page_as_logo", "logo: logo", "<!doctype html><svg></svg>", "logo is not a PNG, JPEG, WebP or SVG picture"},
		{"html_named_svg", "logo: logo", "<html xmlns='http://www.w3.org/1999/xhtml'/>", "logo is not a PNG"},
		{"large_logo", "logo: logo", png + strings.Repeat("x", 64<<10), "logo has 65548 bytes, more than 65536"},
		{"long_title", "title: " + strings.Repeat("x", 121), "", "app.yaml:1: title: has 121 bytes, more than 120"},
		{"title_of_two_lines", `title: "a\nb"`, "", "title: has a line break"},
		{"long_description", "description: " + strings.Repeat("x", 2049), "", "description: has 2049 bytes"},
		{"long_example", "examples: [a, " + strings.Repeat("x", 2049) + "]", "", "examples[1]: has 2049 bytes"},
		{"many_examples", "examples: [" + strings.Repeat("a,", 51) + "]", "", "examples: has 51 questions, more than 50"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			files := fstest.MapFS{
				"mine/app.yaml": {Data: []byte(c.yaml + "\nagents: {a: {prompt: a.md}}\nmodel: x/y\n")},
				"mine/a.md":     {Data: []byte("Help.")},
			}
			if c.logo != "" {
				files["mine/logo"] = &fstest.MapFile{Data: []byte(c.logo)}
			}
			apps, err := load(t, files, "")
			switch {
			case c.want == "" && (err != nil || len(apps) != 1):
				t.Errorf("got %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			case c.name == "all_is_right" && (apps[0].Page.Accent != "#1f6feb" || apps[0].Page.Type != "image/png"):
				t.Errorf("got %+v", apps[0].Page)
			case c.name == "a_drawing" && apps[0].Page.Type != "image/svg+xml":
				t.Errorf("got %s", apps[0].Page.Type)
			}
		})
	}
}
