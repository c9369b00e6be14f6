package account

import "strings"

// mostAgent bounds what is read of a User-Agent.
const mostAgent = 512

// named are the names that a User-Agent is searched for, the first that is in it counts: most
// browsers claim to be others, too.
type named [][2]string

var browsers = named{
	{"Edg/", "Edge"},
	{"EdgA/", "Edge"},
	{"EdgiOS/", "Edge"},
	{"OPR/", "Opera"},
	{"SamsungBrowser/", "Samsung Internet"},
	{"Vivaldi/", "Vivaldi"},
	{"FxiOS/", "Firefox"},
	{"Firefox/", "Firefox"},
	{"CriOS/", "Chrome"},
	{"HeadlessChrome/", "Chrome"},
	{"Chrome/", "Chrome"},
	{"Chromium/", "Chromium"},
	{"Safari/", "Safari"},
}

var systems = named{
	{"Android", "Android"},
	{"iPhone", "iPhone"},
	{"iPad", "iPad"},
	{"Windows", "Windows"},
	{"CrOS", "ChromeOS"},
	{"Macintosh", "macOS"},
	{"OpenBSD", "OpenBSD"},
	{"FreeBSD", "FreeBSD"},
	{"Linux", "Linux"},
}

func (all named) in(text string) string {
	for _, n := range all {
		if strings.Contains(text, n[0]) {
			return n[1]
		}
	}
	return ""
}

// BrowserOf is what people call the program that sent a User-Agent, such as "Firefox on
// Linux"; "" when it isn't known. Nothing of what was sent is in it but names from a list.
func BrowserOf(userAgent string) string {
	text := userAgent[:min(len(userAgent), mostAgent)]
	browser, system := browsers.in(text), systems.in(text)
	switch {
	case browser == "":
		return system
	case system == "":
		return browser
	}
	return browser + " on " + system
}
