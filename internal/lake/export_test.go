package lake

// Hold uses the lake's folder until it is let go.
func (l *Lake) Hold() (letGo func(), err error) {
	_, letGo, err = l.folder.use()
	return letGo, err
}
