package config

import "github.com/parley-server/parley/internal/pattern"

var toolKind = pattern.New(`^[a-z][a-z0-9_-]{0,39}$`)

// ToolKind reports whether name is valid for a kind of tools, which is a key under tools in an
// app.yaml.
func ToolKind(name string) bool { return toolKind.MatchString(name) }

// AppName reports whether name is valid for an app and its folder.
func AppName(name string) bool { return appName.MatchString(name) }
