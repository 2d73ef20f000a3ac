package program

import (
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/callout"
	"github.com/parley-server/parley/internal/tool/command"
)

// newCommand makes the tools of a program that the app names under tools.command.
func newCommand(d app.ToolDeps) (app.Service, error) {
	c := d.Toolset.Command
	o := command.Options{Run: c.Run, Dir: c.Dir, Env: c.Env, Memory: c.Memory, AtOnce: c.AtOnce, Clean: d.Clean}
	for _, t := range c.Tools {
		o.Tools = append(o.Tools, callout.Tool(t))
	}
	tools, err := command.New(o)
	if err != nil {
		return app.Service{}, d.Mistakes(err)
	}
	var env []string
	for name, value := range c.Env {
		env = append(env, name+"="+value)
	}
	return app.Service{Toolset: tools, Secrets: append(secrets(env, isFile), referred(c.Refs, isFile)...)}, nil
}
