// Times, sizes and numbers for people.
import { T } from "./text";

// when reads the API's times, which are UTC without a zone.
export function when(text: string): Date {
  return new Date(/[Zz]|[+-]\d\d:\d\d$/.test(text) ? text : text + "Z");
}

const local = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const zone = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts(new Date()).find((p) => p.type === "timeZoneName")?.value ?? "";
const offset = () => new Date().getTimezoneOffset() !== 0;

export function timeText(text: string): string {
  return local.format(when(text)) + " " + (offset() ? zone : "UTC");
}

export function utcText(text: string): string {
  return offset() ? when(text).toISOString().slice(0, 19).replace("T", " ") + " UTC" : "";
}

export function ago(text: string, now = Date.now()): string {
  const seconds = Math.round((now - when(text).getTime()) / 1000);
  if (seconds < 0) return timeText(text);
  if (seconds < 60) return T.time.now;
  if (seconds < 3600) return T.time.minutes(Math.floor(seconds / 60));
  if (seconds < 86400) return T.time.hours(Math.floor(seconds / 3600));
  return T.time.days(Math.floor(seconds / 86400));
}

const units = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined) return T.none;
  let i = 0;
  while (Math.abs(n) >= 1024 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return `${round(n)} ${units[i]}`;
}

export function round(n: number): string {
  const abs = Math.abs(n);
  return n.toLocaleString("en-GB", { maximumFractionDigits: abs >= 100 ? 0 : abs >= 10 ? 1 : 2 });
}

export function measured(n: number | null | undefined, unit: string): string {
  if (n === null || n === undefined) return T.none;
  switch (unit) {
    case "byte":
      return bytes(n);
    case "GB":
      return bytes(n * 2 ** 30);
    case "bytes_per_second":
      return bytes(n) + "/s";
    case "percent":
      return round(n) + " %";
    case "second":
      return round(n) + " s";
    case "ops_per_second":
    case "iops":
      return round(n) + "/s";
    default:
      return round(n);
  }
}

// plain shows what could turn the direction of text or hide in it.
export function plain(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, "\ufffd");
}
