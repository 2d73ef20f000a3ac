package lake

// Touch has the next reader look at the files.
func (l *Lake) Touch() { l.x.touch() }
