// Line icons on a 24 grid. They are decorative: the user of an icon provides its name.

import type { ReactNode } from "react";

function icon(shapes: ReactNode) {
  return function Icon({ size = 18 }: { size?: number }) {
    return (
      <svg
        aria-hidden="true"
        width={size}
        height={size}
        viewBox="0 0 24 24"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.75"
        strokeLinecap="round"
        strokeLinejoin="round"
        className="shrink-0"
      >
        {shapes}
      </svg>
    );
  };
}

export const ArrowUp = icon(<path d="M12 19V5m-6 6 6-6 6 6" />);
export const ArrowDown = icon(<path d="M12 5v14m6-6-6 6-6-6" />);
export const Plus = icon(<path d="M12 5v14M5 12h14" />);
export const Close = icon(<path d="m6 6 12 12M18 6 6 18" />);
export const Menu = icon(<path d="M4 7h16M4 12h16M4 17h16" />);
export const Dots = icon(
  <g fill="currentColor" stroke="none">
    <circle cx="5.5" cy="12" r="1.6" />
    <circle cx="12" cy="12" r="1.6" />
    <circle cx="18.5" cy="12" r="1.6" />
  </g>,
);
export const Stop = icon(<rect x="7" y="7" width="10" height="10" rx="1.5" fill="currentColor" stroke="none" />);
export const Copy = icon(
  <>
    <rect x="9" y="9" width="11" height="11" rx="2" />
    <path d="M5 15H4.5A1.5 1.5 0 0 1 3 13.5v-9A1.5 1.5 0 0 1 4.5 3h9A1.5 1.5 0 0 1 15 4.5V5" />
  </>,
);
export const Check = icon(<path d="m5 12.5 4.5 4.5L19 7.5" />);
export const Retry = icon(<path d="M20 11a8 8 0 1 0-.6 4M20 5v6h-6" />);
export const Pencil = icon(<path d="M4 20h4L19 9a2.1 2.1 0 0 0-3-3L5 17l-1 3ZM14.5 7.5l3 3" />);
export const Trash = icon(<path d="M4.5 7h15M10 4h4m-7.5 3 .8 11.2A2 2 0 0 0 9.3 20h5.4a2 2 0 0 0 2-1.8L17.5 7M10 11v5m4-5v5" />);
export const Chevron = icon(<path d="m9 6 6 6-6 6" />);
export const Alert = icon(<path d="M12 8.5v4.5m0 3.2v.1M10.4 4.6 3.2 17a1.9 1.9 0 0 0 1.6 2.9h14.4a1.9 1.9 0 0 0 1.6-2.9L13.6 4.6a1.85 1.85 0 0 0-3.2 0Z" />);
export const Moon = icon(<path d="M20 14.2A8 8 0 0 1 9.8 4 8 8 0 1 0 20 14.2Z" />);
export const Sun = icon(
  <>
    <circle cx="12" cy="12" r="4" />
    <path d="M12 3v1.5m0 15V21M3 12h1.5m15 0H21M5.6 5.6l1.1 1.1m10.6 10.6 1.1 1.1m0-12.8-1.1 1.1M6.7 17.3l-1.1 1.1" />
  </>,
);
export const Screen = icon(
  <>
    <rect x="3" y="4.5" width="18" height="12" rx="2" />
    <path d="M9 20h6m-3-3.5V20" />
  </>,
);
export const Hand = icon(<path d="M12 3.5 5 6v5.5c0 4.3 2.8 7.4 7 9 4.2-1.6 7-4.7 7-9V6l-7-2.5Zm-2.8 8.3 2 2 3.8-4" />);
export const Help = icon(
  <>
    <circle cx="12" cy="12" r="8.5" />
    <path d="M9.7 9.4a2.4 2.4 0 1 1 3.4 2.3c-.8.4-1.1.9-1.1 1.8m0 2.7v.1" />
  </>,
);
export const House = icon(<path d="m3.5 11 8.5-7 8.5 7M6 9.5V20h12V9.5M10 20v-5.5h4V20" />);
export const Pin = icon(<path d="M9 3.5h6l-.7 6 3.2 3.5h-11l3.2-3.5-.7-6ZM12 13v7.5" />);
export const Eye = icon(
  <>
    <path d="M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12Z" />
    <circle cx="12" cy="12" r="2.8" />
  </>,
);
export const Bolt = icon(<path d="M13 3 5 13.5h6L10.5 21 19 10h-6.2L13 3Z" />);
export const File = icon(<path d="M13.5 3.5H6.5v17h11v-13l-4-4Zm0 0v4h4" />);
export const Bars = icon(<path d="M4 6.5h7M9 12h8M14 17.5h6" />);
export const Tray = icon(<path d="M4 13.5 6.3 6h11.4L20 13.5V19H4v-5.5Zm0 0h4.6l1.2 2.3h4.4l1.2-2.3H20" />);

export const Apps = icon(<path d="M5 5h5v5H5zM14 5h5v5h-5zM5 14h5v5H5zM14 14h5v5h-5z" />);
export const Info = icon(
  <>
    <circle cx="12" cy="12" r="8.5" />
    <path d="M12 11v5m0-8.2v.1" />
  </>,
);
export const Spark = icon(<path d="M12 4v16M4 12h16M6.8 6.8l10.4 10.4M17.2 6.8 6.8 17.2" />);
export const Power = icon(<path d="M12 3.5V11M7.3 6.8a7.5 7.5 0 1 0 9.4 0" />);

export const Minus = icon(<path d="M5 12h14" />);
export const Expand = icon(<path d="M14 4h6v6M20 4l-7 7M10 20H4v-6M4 20l7-7" />);
export const Prompt = icon(<path d="m5 7 5 5-5 5m7 0h7" />);
export const Open = icon(<path d="M13 5h6v6M19 5l-8 8M10 5H5.5v13.5H19V14" />);
export const Clip = icon(<path d="m19.5 11.5-7.6 7.6a4.6 4.6 0 0 1-6.5-6.5l8-8a3.1 3.1 0 0 1 4.4 4.4l-7.9 7.9a1.6 1.6 0 0 1-2.2-2.2l7.2-7.2" />);
export const Folder = icon(<path d="M3.5 6.5v11.5h17V8.5h-9l-2-2h-6Z" />);
export const Tasks = icon(<path d="m4 7 1.6 1.6L8.5 5.5M4 17l1.6 1.6 2.9-3.1M12 7h8M12 17h8" />);
export const Back = icon(<path d="M11 6 5 12l6 6M5.5 12H19" />);
export const Forth = icon(<path d="m13 6 6 6-6 6m5.5-6H5" />);
export const Person = icon(
  <>
    <circle cx="12" cy="8.5" r="3.5" />
    <path d="M5.5 20c.6-3.6 3.2-5.5 6.5-5.5s5.9 1.9 6.5 5.5" />
  </>,
);
export const Download = icon(<path d="M12 4.5v11m-4.5-4 4.5 4.5 4.5-4.5M5 19.5h14" />);
export const NewFile = icon(<path d="M13.5 3.5H6.5v17h11v-13l-4-4Zm0 0v4h4M12 11v6m-3-3h6" />);
export const Rewind = icon(<path d="M9 7 4 12l5 5M4.5 12H15a4.5 4.5 0 0 1 0 9h-2" />);
export const Fork = icon(
  <>
    <circle cx="6.5" cy="5.5" r="2.2" />
    <circle cx="17.5" cy="5.5" r="2.2" />
    <circle cx="6.5" cy="18.5" r="2.2" />
    <path d="M6.5 7.7v8.6M17.5 7.7v1.6a3 3 0 0 1-3 3H6.5" />
  </>,
);
export const Bell = icon(<path d="M6 16.5V11a6 6 0 0 1 12 0v5.5l1.5 1.5h-15L6 16.5ZM10 20.5h4" />);
export const Clock = icon(
  <>
    <circle cx="12" cy="12" r="8.5" />
    <path d="M12 7.5V12l3 2" />
  </>,
);
export const Graph = icon(
  <>
    <circle cx="6" cy="7" r="2.5" />
    <circle cx="18" cy="9" r="2.5" />
    <circle cx="10.5" cy="18" r="2.5" />
    <path d="m8.4 7.5 7.1 1.1M7 9.3l2.7 6.4m2.2-.1 4.6-4.5" />
  </>,
);
export const Target = icon(
  <>
    <circle cx="12" cy="12" r="6.5" />
    <path d="M12 2.5v4m0 11v4M2.5 12h4m11 0h4" />
  </>,
);
