module example.com/go-tool

go 1.26.0

require github.com/parley-server/parley v0.1.0
