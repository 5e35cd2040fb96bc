// Marks over a picture: trails, heatmaps, truth, and a dot per keypoint. Points are (x, y) in [-1, 1].

const RIM = "#14141a";
const DENSEST = 0.5; // of a heatmap, at its peak: what lies under it must be seen
const JUMP = 0.6; // farther in one frame is no way that anything went

// at(k, back): where keypoint k was `back` frames ago, or null; truth: { centres, present, followed, objects, radius }.
export function overlay(pen, width, height, { at, visible, colours, sigma, trails, labels, heat, truth, show }) {
  const x = (point) => ((point[0] + 1) / 2) * width;
  const y = (point) => ((point[1] + 1) / 2) * height;
  const colour = (k) => colours[k % colours.length];
  const radius = Math.max(5, 0.02 * Math.min(width, height));
  const shown = visible.map((on, k) => (on ? k : -1)).filter((k) => k >= 0 && at(k, 0));
  pen.clearRect(0, 0, width, height);
  pen.lineJoin = pen.lineCap = "round";

  if (heat) {
    pen.fillStyle = "rgba(0, 0, 0, 0.2)"; // a little, for the colours: the picture stays what one looks at
    pen.fillRect(0, 0, width, height);
    for (const k of shown) glow(pen, x(at(k, 0)), y(at(k, 0)), (sigma * width) / 2, (sigma * height) / 2, colour(k));
  }

  for (const k of trails ? shown : []) {
    let before = at(k, 0);
    for (let back = 1; back <= trails; back++) {
      const point = at(k, back);
      if (!point || Math.hypot(point[0] - before[0], point[1] - before[1]) > JUMP) break; // it went elsewhere, not there
      pen.globalAlpha = 0.85 * (1 - (back - 1) / trails);
      pen.lineWidth = Math.max(1.5, radius * 0.42);
      pen.strokeStyle = colour(k);
      pen.beginPath();
      pen.moveTo(x(before), y(before));
      pen.lineTo(x(point), y(point));
      pen.stroke();
      before = point;
    }
  }
  pen.globalAlpha = 1;

  if (truth) {
    truth.centres.forEach((centre, n) => {
      if (!truth.present[n]) return;
      if (show.circles) {
        pen.setLineDash([4, 4]);
        ring(pen, x(centre), y(centre), (truth.radius * width) / 2, (truth.radius * height) / 2, "rgba(255,255,255,0.8)", 1.2);
        pen.setLineDash([]);
      }
      if (show.truth) ring(pen, x(centre), y(centre), radius * 1.7, radius * 1.7, "#fff", 2.2);
      if (show.truth && labels) text(pen, truth.objects[n], x(centre), y(centre) + radius * 1.7 + 11, "#fff");
    });
    for (const k of show.matches ? shown : []) {
      const n = truth.followed[k];
      if (n < 0 || !truth.present[n]) continue;
      for (const [line, stroke] of [[4.5, RIM], [2.2, colour(k)]]) {
        pen.strokeStyle = stroke;
        pen.lineWidth = line;
        pen.beginPath();
        pen.moveTo(x(at(k, 0)), y(at(k, 0)));
        pen.lineTo(x(truth.centres[n]), y(truth.centres[n]));
        pen.stroke();
      }
    }
  }

  for (const k of shown) {
    const point = at(k, 0);
    for (const [size, fill] of [[1, RIM], [0.86, "#fff"], [0.68, colour(k)]]) {
      pen.fillStyle = fill;
      pen.beginPath();
      pen.arc(x(point), y(point), radius * size * (heat ? 0.6 : 1), 0, 7);
      pen.fill();
    }
    if (labels) text(pen, String(k), x(point) + radius + 8, y(point) - radius, colour(k));
  }
}

// exp(-d²/σ²), as the model's own heatmaps are; translucent, and where it fell to 1/e a line that shows on any ground.
function glow(pen, x, y, rx, ry, colour) {
  const reach = 2.2;
  pen.save();
  pen.translate(x, y);
  pen.scale(rx * reach, ry * reach);
  const fill = pen.createRadialGradient(0, 0, 0, 0, 0, 1);
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  for (let i = 0; i <= 10; i++) fill.addColorStop(i / 10, `rgba(${r}, ${g}, ${b}, ${i === 10 ? 0 : DENSEST * Math.exp(-(((i / 10) * reach) ** 2))})`);
  pen.fillStyle = fill;
  pen.fillRect(-1, -1, 2, 2);
  pen.restore();
  pen.globalAlpha = 0.6;
  ring(pen, x, y, rx, ry, colour, 1.4);
  pen.globalAlpha = 1;
}

function ring(pen, x, y, rx, ry, colour, line) {
  for (const [stroke, width] of [[RIM, line + 1.8], [colour, line]]) {
    pen.strokeStyle = stroke;
    pen.lineWidth = width;
    pen.beginPath();
    pen.ellipse(x, y, rx, ry, 0, 0, 7);
    pen.stroke();
  }
}

function text(pen, what, x, y, colour) {
  pen.font = "600 12px system-ui, sans-serif";
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.lineWidth = 3;
  pen.strokeStyle = RIM;
  pen.strokeText(what, x, y);
  pen.fillStyle = colour;
  pen.fillText(what, x, y);
}

// A canvas as sharp as the screen is.
export function fitted(canvas) {
  const ratio = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { pen, width, height };
}
