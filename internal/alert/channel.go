package alert

// ChannelID identifies where an account has its alerts told.
type ChannelID int64

// Contacts is the channel that each account has: mail to all of its contacts.
const Contacts ChannelID = 1
