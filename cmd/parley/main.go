// Command parley is an agent server, and the tools to use it.
//
// It is the smallest program that package server can build, with the apps that come with Parley.
package main

import (
	"github.com/parley-server/parley/apps"
	"github.com/parley-server/parley/apps/chaos"
	"github.com/parley-server/parley/apps/home"
	"github.com/parley-server/parley/apps/leads"
	"github.com/parley-server/parley/apps/major"
	"github.com/parley-server/parley/apps/notes"
	"github.com/parley-server/parley/server"
)

func main() {
	server.Main(server.App(apps.FS()), chaos.App(), home.App(), leads.App(), major.App(), notes.App())
}
