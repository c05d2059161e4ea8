// From a drawing to the picture that the network takes, by MNIST's recipe: the ink is scaled into a box of 20 of 28
// pixels, and its centre of mass moved to the middle.

const BOX = 20 / 28;

/** Numbers from 0 to 1, row by row; null without ink. */
export function toPicture(canvas, height, width) {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const inkAt = (x, y) => (x < 0 || y < 0 || x >= canvas.width || y >= canvas.height ? 0 : data[4 * (y * canvas.width + x) + 3] / 255);
  let [left, top, right, bottom, mass, middleX, middleY] = [canvas.width, canvas.height, -1, -1, 0, 0, 0];
  for (let y = 0; y < canvas.height; y++) {
    for (let x = 0; x < canvas.width; x++) {
      const ink = inkAt(x, y);
      if (ink < 0.1) continue;
      [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
      mass += ink;
      middleX += ink * (x + 0.5);
      middleY += ink * (y + 0.5);
    }
  }
  if (!mass) return null;
  const step = Math.max((right - left + 1) / (BOX * width), (bottom - top + 1) / (BOX * height)); // drawn pixels in one of the picture
  return Float64Array.from({ length: height * width }, (_, at) => {
    const x = middleX / mass + ((at % width) - width / 2) * step, y = middleY / mass + (Math.floor(at / width) - height / 2) * step;
    return meanOver(inkAt, x, y, step);
  });
}

/** The mean ink of a square. */
function meanOver(inkAt, x, y, side) {
  let sum = 0, count = 0;
  for (let row = Math.round(y); row < Math.max(y + side, Math.round(y) + 1); row++) {
    for (let column = Math.round(x); column < Math.max(x + side, Math.round(x) + 1); column++) {
      sum += inkAt(column, row);
      count += 1;
    }
  }
  return sum / count;
}
